"""Paths, by spelling alone; ambiguous spellings are UNDECIDED."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from toolcards.core.policy.truth import UNDECIDED


@dataclass(frozen=True, slots=True)
class ParsedPath:
    """A path in pieces.

    `root` is "/", "~" (in rules only), "" (relative), or a Windows drive or share.
    """

    root: str
    parts: tuple[str, ...]

    @property
    def windows(self) -> bool:
        """Whether names are compared without regard to case."""
        return self.root not in {"/", "~", ""}


_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SHORT_NAME = re.compile(r"~[0-9]")
_GLOB = frozenset("*?[{")
_EXPANSIONS = frozenset("$%`")  # a variable, an escape, a command: the text is not the name
_DOTS = re.compile(r"[. ]+(;.*)?\Z", re.DOTALL)
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Drawn like a slash or a backslash, and read as one by programs that normalize their input.
_SLASHES = frozenset(
    "\u2044\u2215\u2571\u27cb\u29f8\uff0f\u2cc6\u3033\u1735\u2041\u2216\u2572\u27cd\u29f5\u29f9\ufe68\uff3c"
)
_LINKS = frozenset({"proc", "dev"})  # trees of links: /proc/self/root leads anywhere


def parse_directory(text: str) -> ParsedPath:
    """Parse a directory in a rule; raise ValueError if it is ambiguous."""
    home = text == "~" or text.startswith("~/")
    place = parse_path("/" + text[2:]) if home else parse_path(text)
    if place is None or _GLOB & set(text):
        raise ValueError("expects a plain directory, without .., variables or wildcards")
    return ParsedPath("~", place.parts) if home else place


def is_inside(place: ParsedPath, directory: ParsedPath) -> bool | None:
    """Return whether the path is the directory or below it."""
    if place.root.casefold() != directory.root.casefold():
        return UNDECIDED
    if not directory.parts:  # the root itself: no link leads out of it
        return True
    if place.root == "/" and place.parts[:1] and place.parts[0].casefold() in _LINKS - {directory.parts[0]}:
        return UNDECIDED
    for ours, theirs in zip(directory.parts, place.parts, strict=False):
        if _GLOB & set(theirs):
            return UNDECIDED
        if ours == theirs:
            continue
        if fold_case(ours) == fold_case(theirs):
            if place.windows:
                continue
            return UNDECIDED  # the same directory on a disk that ignores case
        return False
    return len(place.parts) >= len(directory.parts)


def parse_path(path: str) -> ParsedPath | None:
    """Return the path in pieces, UNDECIDED if ambiguous.

    A leading `~` is ambiguous: some tools go to the home directory, others to a directory of that name.
    """
    if not path or path != path.strip() or _SLASHES & set(path):
        return UNDECIDED
    if not path.isprintable() and any(unicodedata.category(char) in _INVISIBLE_CATEGORIES for char in path):
        return UNDECIDED
    if _DRIVE.match(path):
        return _parse_windows_path(path[:2].casefold(), path[3:])
    if path.startswith("\\\\"):
        return _parse_windows_path("\\\\", path[2:])
    if "\\" in path or path.startswith(("//", "~")) or _SCHEME.match(path) or _EXPANSIONS & set(path):
        return UNDECIDED
    root, remainder = ("/", path[1:]) if path.startswith("/") else ("", path)
    parts = tuple([part for part in remainder.split("/") if part not in {"", "."}])
    return UNDECIDED if any(map(_may_lead_elsewhere, parts)) else ParsedPath(root, parts)


def _may_lead_elsewhere(part: str) -> bool:
    """Return whether some program may read the name as the parent directory, or as several names."""
    if part.isascii() and part[0] not in ". {":
        return False
    if _GLOB & set(part) and (part[0] == "." or ".." in part):  # some shells find .. by .* or {..,x}
        return True
    normalized_part = unicodedata.normalize("NFKC", part)
    return bool(_DOTS.match(normalized_part)) or "/" in normalized_part or "\\" in normalized_part


def _parse_windows_path(root: str, remainder: str) -> ParsedPath | None:
    """Windows drops dots and blanks at the end of a name, and knows short names and streams."""
    parts = tuple(part for part in re.split(r"[\\/]", remainder) if part not in {"", "."})
    for part in parts:
        if part[-1] in ". " or ":" in part or "%" in part or _SHORT_NAME.search(part):
            return UNDECIDED
    return ParsedPath(root, parts)


def fold_case(name: str) -> str:
    """Return the name as disks that ignore case compare it."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


@lru_cache(maxsize=4_096)
def may_be(first: str, second: str) -> bool:
    """Return whether two names with `*` and `?` may be equal."""
    reached_places = {(0, 0)}
    pending = [(0, 0)]
    while pending:
        ours_at, theirs_at = pending.pop()
        if ours_at == len(first) and theirs_at == len(second):
            return True
        ours, theirs = first[ours_at : ours_at + 1], second[theirs_at : theirs_at + 1]
        steps = []
        if ours == "*":
            steps += [(ours_at + 1, theirs_at)] + ([(ours_at, theirs_at + 1)] if theirs else [])
        if theirs == "*":
            steps += [(ours_at, theirs_at + 1)] + ([(ours_at + 1, theirs_at)] if ours else [])
        if ours and theirs and "*" not in (ours, theirs) and (ours == theirs or "?" in (ours, theirs)):
            steps.append((ours_at + 1, theirs_at + 1))
        for step in steps:
            if step not in reached_places:
                reached_places.add(step)
                pending.append(step)
    return False
