"""Where secrets are kept, as parts of paths: the catalog `secret_places.toml`, and whether a path leads to one.

A path is read by its spelling, like a shell and most programs do. Where a pattern, a link or the letter case decides,
the answer is UNKNOWN.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

from toolcards.core.policy.places.paths import fold_case, may_be
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

MAX_PATH = 4_096
MAX_PARTS = 64
_LONGEST_NAME, _LONGEST_GLOB = 255, 64  # characters; disks have no longer names
_LONG_GLOB = re.compile(r"(?=\S*[*?])\S{65,}")
_MAX_SPELLINGS = 32  # of one path with braces
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_PROSE = re.compile(r"\S[ \t]+[~/.$]")  # a path after another word
_CLASS = re.compile(r"\[[^\]]+\]")
_HOME = re.compile(r"(?:~[^/]*|\$HOME|\$\{HOME\}|%USERPROFILE%|%HOMEPATH%|\$env:(?:USERPROFILE|HOME))(?=/|\Z)", re.I)
_CONFIG = re.compile(r"(?:\$XDG_CONFIG_HOME|\$\{XDG_CONFIG_HOME\})(?=/|\Z)")
_DRIVE = re.compile(r"[A-Za-z]:(?=/)")
_FILE_URL = re.compile(r"(?:view-source:)?file:(?://[^/]*)?(?=/)", re.I)
_GLOB = re.compile(r"[*?]")
_HOMES = frozenset({"home", "users"})
_TREES = frozenset({"root", "cwd"})  # of a process: /proc/self/root/etc is /etc


@dataclass(frozen=True, slots=True)
class SpelledPath:
    """A path in pieces: `home` is how many of them lead to a home folder, -1 if none do.

    `absolute`: it begins at the root. `detours`: the pieces before `..`, which a link may lead elsewhere.
    """

    parts: tuple[str, ...]
    home: int = -1
    absolute: bool = False
    detours: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """A place of the catalog: `begin` is "", "~" or "/"; `file`: nothing is below it."""

    begin: str
    parts: tuple[str, ...]
    file: bool


@dataclass(frozen=True)
class SecretPlaces:
    """All places, the names of harmless files, and the folders above many places."""

    every: tuple[SecretPlace, ...]
    harmless: tuple[str, ...]
    above: tuple[str, ...]

    @lru_cache(maxsize=4_096)  # noqa: B019 - there is one catalog
    def _list_candidates(self, name: str) -> tuple[SecretPlace, ...]:
        """Return the places whose first part may be this name."""
        is_glob = _GLOB.search(name) is not None
        if len(name) > (_LONGEST_GLOB if is_glob else _LONGEST_NAME):
            return ()
        if not is_glob:
            varying = (place for pattern, place in self._varying if pattern.fullmatch(name))
            return (*self._plain.get(name, ()), *varying)
        return tuple(
            place
            for place in self.every
            if may_be(fold_case(place.parts[0]), name)
            and (len(place.parts) > 1 or _is_evident(fold_case(place.parts[0]), name))
        )

    @cached_property
    def _plain(self) -> dict[str, list[SecretPlace]]:
        plain: dict[str, list[SecretPlace]] = {}
        for place in self.every:
            plain.setdefault(fold_case(place.parts[0]), []).append(place)
        return plain

    @cached_property
    def _varying(self) -> list[tuple[re.Pattern[str], SecretPlace]]:
        return [(_compile(place.parts[0]), place) for place in self.every if _GLOB.search(place.parts[0])]

    @cached_property
    def _harmless(self) -> re.Pattern[str]:
        return re.compile("|".join(_compile(pattern).pattern for pattern in self.harmless))

    def find(self, text: str) -> Truth:
        """Return whether the path leads to a secret place."""
        if not text or len(text) > MAX_PATH or "\n" in text or _PROSE.search(text):
            return FALSE
        answer = FALSE
        for spelling in _expand_braces(text):
            path = split_path(spelling)
            answer = max(answer, self._find_parts(path, path.parts))
            for detours in path.detours:
                answer = max(answer, min(UNKNOWN, self._find_parts(path, detours)))
            if answer is TRUE:
                break
        return answer

    def is_above(self, text: str) -> bool:
        """Return whether many secret places are below the path."""
        path = split_path(text.removesuffix("/*"))
        if not path.parts:
            return path.absolute or path.home == 0
        if path.home == len(path.parts):
            return True
        spelling = "~/" + "/".join(path.parts[path.home :]) if path.home >= 0 else "/" + "/".join(path.parts)
        return (path.absolute or path.home >= 0) and fold_case(spelling) in self.above

    def _find_parts(self, path: SpelledPath, parts: tuple[str, ...]) -> Truth:
        if len(parts) > MAX_PARTS or any(map(_LONG_GLOB.fullmatch, parts)):
            return UNKNOWN
        names = tuple(map(fold_case, parts))
        if names and not _GLOB.search(names[-1]) and self._harmless.fullmatch(names[-1]):
            names = names[:-1]
        return self._find_names(path, parts, names)

    def _find_names(self, path: SpelledPath, parts: tuple[str, ...], names: tuple[str, ...]) -> Truth:
        answer = FALSE
        for start, name in enumerate(names):
            for place in self._list_candidates(name):
                if not _begins(place, path, start) or not _is_at(place, names, start, len(parts)):
                    continue
                exact = all(_is_exact(ours, theirs) for ours, theirs in zip(place.parts, parts[start:], strict=False))
                if exact:
                    return TRUE
                answer = UNKNOWN
        return answer


def _compile(pattern: str) -> re.Pattern[str]:
    """Return a name with `*` and `?` as a regular expression."""
    return re.compile(re.escape(fold_case(pattern)).replace(r"\*", ".*").replace(r"\?", "."))


def _begins(place: SecretPlace, path: SpelledPath, start: int) -> bool:
    if place.begin == "~":
        return start == path.home
    return start == 0 and path.absolute if place.begin == "/" else True


def _is_at(place: SecretPlace, names: tuple[str, ...], start: int, length: int) -> bool:
    """Return whether the names from `start` on may be the place."""
    end = start + len(place.parts)
    if end > len(names) or (place.file and end != length):
        return False
    candidates = names[start:end]
    if not all(may_be(fold_case(ours), theirs) for ours, theirs in zip(place.parts, candidates, strict=True)):
        return False
    return _is_evident(fold_case(place.parts[-1]), candidates[-1])


def _is_exact(place: str, name: str) -> bool:
    return place == name or (bool(_GLOB.search(place)) and not _GLOB.search(name) and may_be(place, name))


def _is_evident(place: str, name: str) -> bool:
    """Return whether a pattern spells enough of the place: `.s*` and `id_*`, but not `*` or `*.json`."""
    if place == name or not _GLOB.search(name):
        return True
    if _GLOB.search(place):  # `*.key` and `test_*` may meet, but only `server.k*` means it
        start, end = _GLOB.split(place)[0], _GLOB.split(place)[-1]
        return name.startswith(start[:3]) if len(start) > len(end) else name.endswith(end)
    spelled_count = sum(len(piece) for piece in _GLOB.split(name))
    if "." in name[1:] and not place.startswith("."):
        spelled_count -= len(name.rpartition(".")[2]) + 1
    return name.startswith(".") or 2 * spelled_count >= len(place)


def _expand_braces(text: str) -> list[str]:
    """Return the spellings without braces; where there are too many, one pattern."""
    spellings = [text]
    while any(_BRACES.search(spelling) for spelling in spellings):
        spellings = [each for spelling in spellings for each in _expand_one(spelling)]
        if len(spellings) > _MAX_SPELLINGS:
            return [_BRACES.sub("*", text)]
    return spellings


def _expand_one(text: str) -> Iterator[str]:
    match = _BRACES.search(text)
    if match is None:
        yield text
        return
    for piece in match[1].split(","):
        yield text[: match.start()] + piece + text[match.end() :]


@lru_cache(maxsize=1_024)
def split_path(text: str) -> SpelledPath:
    """Return the path in pieces, without `.` and `..`.

    Character classes become `?`.
    """
    text = text.strip()
    if _FILE_URL.match(text):
        text = unquote(_FILE_URL.sub("", text))
        text = text[1:] if _DRIVE.match(text[1:]) else text
    text = _CLASS.sub("?", text.replace("\\", "/"))
    config, home = _CONFIG.match(text), _HOME.match(text)
    drive = _DRIVE.match(text)
    remainder = text
    start: list[str] = []
    if config is not None:
        start, remainder = [".config"], text[config.end() :]
    elif home is not None or drive is not None:
        remainder = text[(home or drive).end() :]  # type: ignore[union-attr]
    absolute = text.startswith("/") or drive is not None
    parts, detours = _follow_steps([*start, *remainder.split("/")])
    if absolute:
        parts = _leave_process(parts)
    at_home = 0 if home is not None or config is not None else _count_home(parts) if absolute else -1
    return SpelledPath(parts, at_home, absolute, detours)


def _follow_steps(pieces: list[str]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    parts: list[str] = []
    detours: list[tuple[str, ...]] = []
    for piece in pieces:
        if piece in {"", "."}:
            continue
        if piece == "..":
            if parts:
                detours.append(tuple(parts))
                parts.pop()
            continue
        parts.append(piece)
    return tuple(parts), tuple(detours[:MAX_PARTS])


def _leave_process(parts: tuple[str, ...]) -> tuple[str, ...]:
    while len(parts) > 3 and parts[0].casefold() == "proc" and parts[2].casefold() in _TREES:
        parts = parts[3:]
    return parts


def _count_home(parts: tuple[str, ...]) -> int:
    """Return how many pieces of an absolute path lead to a home folder, or -1."""
    names = [name.casefold() for name in parts[:4]]
    if names[:1] == ["mnt"] and len(names) > 3 and names[2] in _HOMES:
        return 4
    if len(names) > 1 and names[0] in _HOMES:
        return 2
    if names[:2] == ["var", "root"]:
        return 2
    return 1 if names[:1] == ["root"] else -1


@cache
def load_document() -> dict[str, Any]:
    """Return the catalog as it is written."""
    return tomllib.loads(files(__package__).joinpath("secret_places.toml").read_text(encoding="utf-8"))


@cache
def load_places() -> SecretPlaces:
    """Return the places of the catalog."""
    document = load_document()
    every = [
        _read_place(text, is_file=key == "files") for key in ("folders", "files") for text in document[key].split()
    ]
    return SecretPlaces(
        tuple(every), tuple(map(fold_case, document["harmless"].split())), tuple(document["above"].lower().split())
    )


def _read_place(text: str, *, is_file: bool) -> SecretPlace:
    begin = text[0] if text.startswith(("~/", "/")) else ""
    return SecretPlace(begin, tuple(text.removeprefix("~").strip("/").split("/")), is_file)
