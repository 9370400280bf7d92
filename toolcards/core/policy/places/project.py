"""The project of a run: its folder, what is inside, and what is protected there; see `protected_places.toml`.

Paths are read by their spelling. No link is followed, so a path that goes down and up again (`a/../b`) is UNKNOWN.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files

from toolcards.core.policy.places.paths import ParsedPath, fold_case, is_inside, may_be, parse_path
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

MAX_PATH = 4_096
_MAX_PARTS = 64
_LONGEST_NAME, _LONGEST_GLOB, _MAX_GLOBS = 255, 64, 8
_GLOB = frozenset("*?[{")
_STEPS_UP = re.compile(r"(?:(?:\./+)*\.\.(?:/+|\Z))*")
_WINDOWS_STEPS_UP = re.compile(r"(?:(?:\.[\\/]+)*\.\.(?:[\\/]+|\Z))*")
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
_CLASS = re.compile(r"\[(?![!^]\])[^\[\]]+\]")  # one character
_NESTED_CLASS = re.compile(r"\[.*\]", re.DOTALL)
_SHORT_NAME = re.compile(r"~[0-9]")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
UNKNOWN_FOLDER = "?"  # the folder of a call that works in an unknown one: inside of no project
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """The folder of a project, and the folder inside of it from which paths are seen.

    `manifests`: names of files, in lower case, that are not protected here.
    """

    root: ParsedPath
    folder: ParsedPath
    manifests: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The root as rules name it: an absolute path."""
        joint = "\\" if self.root.windows else "/"
        return joint.join((self.root.root.rstrip("/\\"), *self.root.parts))

    def move(self, word: str) -> Project | None:
        """Return the project as seen after `cd word`.

        None if the folder is outside or is not certain.
        """
        answer, names = self._find(word)
        if answer is not TRUE or any(_GLOB & set(name) for name in names):
            return None
        return replace(self, folder=ParsedPath(self.root.root, (*self.root.parts, *names)))

    def locate(self, word: str, *, recursive: bool = False) -> Truth:
        """Return whether a path is inside of the project and not protected.

        `recursive`: everything below the path is meant, as by `rm -r`; a folder with protected places is UNKNOWN then.
        """
        answer, names = self._find(word)
        if names and not recursive and names[-1].lower() in self.manifests:
            names = names[:-1]
        return answer if answer is not TRUE else min(answer, _find_harmless(names, recursive))

    def contains(self, word: str) -> Truth:
        """Return whether a path is inside of the project, protected or not."""
        return self._find(word)[0]

    def _find(self, word: str) -> tuple[Truth, Names]:
        """Return whether the path is inside, and its names below the root."""
        if not word or len(word) > MAX_PATH or _BRACES.search(word):
            return UNKNOWN, ()
        above = (_WINDOWS_STEPS_UP if self.root.windows else _STEPS_UP).match(word)
        steps = above[0].count("..") if above else 0
        remainder = word[above.end() :] if above and steps else word
        place = self._parse(remainder) if remainder else ParsedPath("", ())
        if place is None or len(place.parts) > _MAX_PARTS:
            return UNKNOWN, ()
        top = len(self.root.parts)
        if place.root:
            answer = UNKNOWN if steps else _to_truth(is_inside(place, self.root))
            return answer, place.parts[top:]
        stays = steps <= len(self.folder.parts) - top
        parts = (*self.folder.parts[: max(0, len(self.folder.parts) - steps)], *place.parts)
        if stays:
            return TRUE, parts[top:]
        return min(UNKNOWN, _to_truth(is_inside(ParsedPath(self.root.root, parts), self.root))), ()

    def _parse(self, word: str) -> ParsedPath | None:
        """Return the path in pieces; a relative one of Windows is read by the rules of Windows."""
        if not self.root.windows or word[0] in "\\/" or ":" in word:
            return parse_path(word)
        place = parse_path(f"{self.root.root}\\{word}")
        return None if place is None or word != word.strip() else ParsedPath("", place.parts)


def _to_truth(answer: bool | None) -> Truth:
    return UNKNOWN if answer is None else TRUE if answer else FALSE


def is_folder(value: object) -> bool:
    """Return whether a value is an absolute path of readable characters."""
    if not isinstance(value, str) or len(value) > MAX_PATH or not value.isprintable():
        return False
    return _ABSOLUTE.match(value) is not None


def check_folder(text: str) -> str:
    """Return the path of a folder, or ""; raise ValueError."""
    if text and not is_folder(text):
        raise ValueError(f"must be an absolute path of at most {MAX_PATH} printable characters")
    return text


@lru_cache(maxsize=1_024)
def read_project(root: str, folder: str = "") -> Project | None:
    """Return the project with this root, as seen from a folder.

    None if the root is unknown, ambiguous or no project, or if the folder is not certainly inside of it.
    """
    if len(root) > MAX_PATH or _GLOB & set(root):
        return None
    place = parse_path(root) if root else None
    if place is None or place.root in {"", "\\\\"} or not _may_be_project(place):
        return None
    project = Project(place, place)
    return project.move(folder) if folder else project


def _may_be_project(place: ParsedPath) -> bool:
    places = _load_places()
    drive = "c:" if place.windows else place.root
    names = (drive, *map(fold_case, place.parts))
    if len(names) > _MAX_PARTS or any(_fits(pattern, names) for pattern in places.no_roots):
        return False
    if any(_fits(pattern, names[: len(pattern)]) for pattern in places.closed_trees) and not any(
        len(names) > len(pattern) and _fits(pattern, names[: len(pattern)]) for pattern in places.open_trees
    ):
        return False
    if places.closed & set(names):
        return False
    for index, name in enumerate(names[1:], start=1):
        is_hidden_home = index == 3 and names[1] in {"home", "users"} and name.startswith(".")
        if is_hidden_home or _find_harmless((name,), recursive=False) is not TRUE:
            next_name = names[index + 1] if len(names) > index + 2 else ""
            if next_name not in places.worktrees and not (is_hidden_home and places.worktrees & set(names[index:-1])):
                return False
    return True


def _fits(pattern: Names, names: Names) -> bool:
    return len(pattern) == len(names) and all(map(may_be, pattern, names))


@lru_cache(maxsize=4_096)
def _find_harmless(names: Names, recursive: bool) -> Truth:
    """Return whether no protected place is at, above or (`recursive`) below a path."""
    places = _load_places()
    folded_names = tuple(_NESTED_CLASS.sub("*", _CLASS.sub("?", fold_case(name))) for name in names)
    globs = [name for name in folded_names if _GLOB & set(name)]
    if len(globs) > _MAX_GLOBS or any(len(name) > _LONGEST_GLOB for name in globs):
        return UNKNOWN
    folded_names = tuple(name.partition(":")[0] for name in folded_names)  # on Windows, the file of a stream
    if any(
        not name or len(name) > _LONGEST_NAME or name[-1] in ". " or _SHORT_NAME.search(name) for name in folded_names
    ):
        return UNKNOWN  # too long for a disk, or another name on Windows
    if names and folded_names[-1] in places.harmless:
        folded_names = folded_names[:-1]
    if recursive and not names:
        return UNKNOWN
    answer = TRUE
    for start, name in enumerate(folded_names):
        for place in places.list_candidates(name):
            candidates = folded_names[start : start + len(place)]
            if len(candidates) < len(place) and not recursive:
                continue
            if not all(map(_meet, place, candidates)):
                continue
            if len(candidates) == len(place) and not any(_GLOB & set(each) for each in candidates):
                return FALSE
            answer = UNKNOWN
    return answer


def _meet(place: str, name: str) -> bool:
    """Return whether a name may be the place; a pattern that begins with a wildcard finds no hidden file."""
    return may_be(place, name) and not (name[0] in "*?" and place[0] == ".")


@dataclass(frozen=True)
class _Places:
    no_roots: tuple[Names, ...]
    closed_trees: tuple[Names, ...]
    open_trees: tuple[Names, ...]
    worktrees: frozenset[str]
    closed: frozenset[str]
    harmless: frozenset[str]
    plain: dict[str, tuple[Names, ...]]
    varying: tuple[Names, ...]
    varying_start: re.Pattern[str]

    def list_candidates(self, name: str) -> Iterable[Names]:
        """Return the places that may begin with this name."""
        if _GLOB & set(name):
            return (*(place for group in self.plain.values() for place in group), *self.varying)
        varying = self.varying if self.varying_start.fullmatch(name) else ()
        return (*self.plain.get(name, ()), *varying)


@cache
def _load_places() -> _Places:
    document = tomllib.loads(files(__package__).joinpath("protected_places.toml").read_text(encoding="utf-8"))
    roots, groups = document["roots"], document["places"]
    harmless = frozenset(groups.pop("harmless").lower().split())
    plain: dict[str, tuple[Names, ...]] = {}
    varying = []
    for place in (tuple(fold_case(text).split("/")) for group in groups.values() for text in group.split()):
        if "*" in place[0]:
            varying.append(place)
        else:
            plain[place[0]] = (*plain.get(place[0], ()), place)
    no_roots, closed_trees, open_trees = (tuple(map(_read_root, roots[key])) for key in ("never", "below", "allowed"))
    start = re.compile("|".join(re.escape(place[0]).replace(r"\*", ".*") for place in varying), re.DOTALL)
    return _Places(
        no_roots, closed_trees, open_trees, frozenset(roots["worktrees"]), frozenset(roots["closed"]), harmless, plain,
        tuple(varying), start,
    )  # fmt: skip


def _read_root(text: str) -> Names:
    """Return the names of a root; those of Windows are the same on every drive."""
    drive, _, remainder = fold_case(text).partition("/")
    return (drive or "/", *filter(None, remainder.split("/")))
