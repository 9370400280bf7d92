"""The files that a patch names: the headers of `apply_patch` and of unified diffs.

Programs read patches more or less strictly, so every line that any of them may take for a header counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = re.compile(r"\*\*\* (?:(?:Add|Update|Delete) File|Move to): ?(\S.*)")
_MARK = re.compile(r"\*\*\* (?:Begin Patch|End Patch|End of File)")
_UNIFIED = re.compile(r"(?:\+\+\+|---) (?:([ab])/)?(\S.*)")
_OTHER_HEADERS = re.compile(
    r"diff |(?:rename|copy) (?:from|to) |Index: |Binary files |GIT binary patch|(?:old|new|deleted file|new file) mode "
)
_PLAIN_MODE = re.compile(r"(?:old mode|new mode|new file mode|deleted file mode) 100(?:644|755)")
_GIT_HEADER = re.compile(r"diff --git a/(\S+) b/\1")
_DELETION = re.compile(r"(?m)^\s*(?:\*\*\* Delete File:|deleted file mode |\+\+\+ /dev/null)")
_NO_FILE = "/dev/null"


@dataclass(frozen=True, slots=True)
class PatchFiles:
    """The paths in the headers of a patch.

    `certain`: every program finds these and no others. `deletes`: it deletes a file.
    """

    paths: tuple[str, ...] = ()
    certain: bool = True
    deletes: bool = False


def read_patch(text: str) -> PatchFiles:
    """Return the files that a text names, if it is a patch."""
    paths: dict[str, None] = {}
    certain = True
    for line in dict.fromkeys([*text.split("\n"), *text.splitlines()]):
        found_paths, is_clear = _read_header(line.strip())
        certain = certain and is_clear
        paths.update(dict.fromkeys(found_paths))
    return PatchFiles(tuple(paths), certain, _DELETION.search(text) is not None)


def _read_header(line: str) -> tuple[tuple[str, ...], bool]:
    """Return the paths of one line, and whether it has one reading only."""
    if line.startswith("***"):
        header = _HEADER.fullmatch(line)
        return ((header[1].strip(),), True) if header else ((), bool(_MARK.fullmatch(line)) or line == "***")
    diff_header = _UNIFIED.fullmatch(line)
    if diff_header is not None:
        return tuple(_read_unified_paths(diff_header)), '"' not in diff_header[2]
    git_header = _GIT_HEADER.fullmatch(line)
    if git_header is not None:
        return (git_header[1],), True
    return (), not _OTHER_HEADERS.match(line) or bool(_PLAIN_MODE.fullmatch(line))


def _read_unified_paths(header: re.Match[str]) -> Iterator[str]:
    """Yield the path without its time, and with the folder that programs strip."""
    path = header[2].split("\t")[0].strip()
    if path == _NO_FILE and not header[1]:
        return
    yield path
    if header[1]:
        yield f"{header[1]}/{path}"
