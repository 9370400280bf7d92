"""The files that a call names: in arguments for files, in patches, and in its commands; reads and writes apart."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from toolcards.core.calls.card import Card
from toolcards.core.policy.places.patches import read_patch
from toolcards.core.policy.shell.command_lines import find_command_line
from toolcards.core.policy.shell.script import CommandSegment, read_line

MAX_DEPTH = 4  # of arguments
_KEY_NAMES = (
    "file_path filepath path paths file files filename notebook_path target_file old_path new_path source destination "
    "absolute_path relative_path directory dir_path folder"
)
_KEYS = frozenset(_KEY_NAMES.split())
_PATCHES = frozenset({"patch", "diff", "input"})
_WRITING_KINDS = frozenset({"edit", "delete", "move"})


class TouchedFiles(NamedTuple):
    """Paths as they are spelled in the call."""

    reads: frozenset[str]
    writes: frozenset[str]


def list_touched_files(card: Card) -> TouchedFiles:
    """Return the files that the arguments name."""
    reads: set[str] = set()
    writes: set[str] = set()
    (writes if card.tool.kind in _WRITING_KINDS else reads).update(_list_named_paths(card.input))
    writes.update(_list_patched_paths(card.input))
    line = find_command_line(card.tool.name, card.input)
    for segment in read_line(line).segments if line else ():
        is_writing = bool({"writes", "deletes"} & segment.analysis.does)
        (writes if is_writing else reads).update(_list_operands(segment))
        writes.update(segment.targets)
        reads.update(segment.inputs)
    return TouchedFiles(frozenset(reads), frozenset(writes))


def names_file(path: str, wanted_path: str) -> bool:
    """Return whether the path is this file or inside this folder.

    `wanted_path` may have `*` and `?`.
    """
    spelling, wanted_spelling = _fold(path), _fold(wanted_path)
    if not wanted_spelling.strip("/"):
        return False
    if any(sign in wanted_spelling for sign in "*?"):
        return fnmatchcase(spelling, f"*/{wanted_spelling.lstrip('/')}") or fnmatchcase(spelling, wanted_spelling)
    return f"/{wanted_spelling.strip('/')}/" in f"{spelling}/"


def _fold(path: str) -> str:
    """Return the path with `/` between its names and before the first one."""
    names = [name for name in path.replace("\\", "/").split("/") if name not in ("", ".")]
    return "/" + "/".join(names)


def _list_named_paths(value: Any, depth: int = 0) -> Iterator[str]:
    if depth > MAX_DEPTH or not isinstance(value, (dict, list)):
        return
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(key, str) and key.lower() in _KEYS:
            yield from (text for text in (part if isinstance(part, list) else [part]) if isinstance(text, str))
        yield from _list_named_paths(part, depth + 1)


def _list_patched_paths(value: Any) -> Iterator[str]:
    texts = value.items() if isinstance(value, dict) else [("patch", value)]
    for key, text in texts:
        if key in _PATCHES and isinstance(text, str):
            yield from read_patch(text).paths


def _list_operands(segment: CommandSegment) -> Iterator[str]:
    """Yield the words of every command that it runs, without programs and options."""
    for view in segment.views:
        yield from (word for word in view[1:] if not word.startswith("-"))
