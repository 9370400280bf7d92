"""What the commands of a line touch: their operands and redirections, and the lines and code that they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from toolcards.core.policy.matching.private_addresses import has_secret, leads_inside
from toolcards.core.policy.matching.secret_places import load_document, load_places
from toolcards.core.policy.matching.spelled_words import spell_line, split_text
from toolcards.core.policy.shell.catalogs import strip_program_name
from toolcards.core.policy.shell.command_prefix import CommandPrefix, parse_prefix
from toolcards.core.policy.shell.plain.parser import parse_line
from toolcards.core.policy.shell.program_match import match_program
from toolcards.core.policy.shell.wrappers import unwrap_command
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

MAX_DEPTH = 3
_MAX_BASES = 8
_PIECES = re.compile(r"[=@:,]")
_RESOURCES = re.compile(r"[,/]")
_INNER = re.compile(r"[\s'\"();|<>]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ROOTED = re.compile(r"[/~$%]|\\\\|[A-Za-z]:[\\/]|file:", re.I)
_READ_VARIABLE = re.compile(r"""(?:\$ENV\b|(?<![\w.$/-])(?:str)?env\b(?!\s*:)|\bENVIRON\b)[.\[("']*(\w*)""")
_SHOWN_ENVIRONMENT = re.compile(r"(?!-)[A-Za-z]*e[A-Za-z]*|-[A-Za-z]*E[A-Za-z]*")  # the letters of ps
_LISTING_OPTIONS: dict[str, set[str]] = {"env": {"-0", "--null"}, "set": set()}
_HOST = re.compile(r"[A-Za-z0-9_.\-]+\.[A-Za-z0-9_.\-]+(?=[/:?#]|\Z)|\[[0-9a-fA-F:.]+\]|0[xX][0-9a-fA-F]+|[0-9]{8,10}")
_PATTERN_OPTIONS = re.compile(r"-[a-zA-Z]*[ef]|--(?:regexp|file|files|expression)(?:=.*)?")
_MOVES = frozenset({"cd", "pushd", "chdir"})
_FOLDER_OPTIONS = frozenset({"-C", "--directory", "--cwd", "--chdir", "--prefix"})


@dataclass(frozen=True, slots=True)
class Touched:
    """Whether a secret place or a private address is touched."""

    secrets: Truth = FALSE
    private: Truth = FALSE

    def union(self, addition: Touched) -> Touched:
        """Return the surer of both answers."""
        return Touched(max(self.secrets, addition.secrets), max(self.private, addition.private))


NOTHING = Touched()


def combine(every: Iterable[Touched]) -> Touched:
    """Return what any of them touches."""
    answer = NOTHING
    for item in every:
        answer = answer.union(item)
        if answer.secrets is TRUE and answer.private is TRUE:
            break
    return answer


def touch_url(url: str) -> Touched:
    """Return what fetching this URL touches."""
    return Touched(has_secret(url), leads_inside(url))


def touch_path(path: str, bases: tuple[str, ...] = ()) -> Touched:
    """Return what the path touches, also below each of `bases`."""
    places = load_places()
    answer = places.find(path)
    if answer is not TRUE and bases and not is_rooted(path):
        answer = max(answer, *(places.find(f"{base}/{path}") for base in bases))
    return Touched(secrets=answer)


def is_rooted(path: str) -> bool:
    """Return whether the path is absolute or begins at a home."""
    return _ROOTED.match(path) is not None


@lru_cache(maxsize=512)
def touch_line(line: str, bases: tuple[str, ...] = (), depth: int = 0) -> Touched:
    """Return what a line touches, also in each of `bases`."""
    if depth > MAX_DEPTH:
        return touch_code(line, bases)
    line_words = spell_line(line)
    exact = [command.words for command in parse_line(line).commands]  # as the programs receive them
    views = [view for words in dict.fromkeys((*line_words.commands, *exact)) for view in unwrap_command(words).views]
    bases = (*bases, *_find_folders(views))[:_MAX_BASES]
    answer = combine(touch_command(view, bases, depth) for view in views)
    answer = answer.union(combine(_touch_word(word, bases) for word in dict.fromkeys(line_words.loose)))
    if line_words.texts and any(map(_runs_text, views)):
        answer = answer.union(combine(touch_code(text, bases) for text in line_words.texts))
        answer = answer.union(combine(touch_line(text, bases, depth + 1) for text in line_words.texts))
    return answer


def touch_code(text: str, bases: tuple[str, ...] = ()) -> Touched:
    """Return what the paths and URLs touch that code spells."""
    pieces = dict.fromkeys(split_text(text))
    return combine(_touch_word(piece, bases) for piece in pieces if "/" in piece or piece[0] in "~.")


def touch_command(words: tuple[str, ...], bases: tuple[str, ...] = (), depth: int = 0) -> Touched:
    """Return what one command touches, by its words."""
    catalog = _load_catalog()
    name = strip_program_name(words[0])
    if _prints_secrets(name, words):
        return Touched(TRUE)
    pattern_place = _find_pattern(words) if name in catalog.search or words[:2] == ("git", "grep") else -1
    operands = [word for place, word in enumerate(words) if place != pattern_place or is_rooted(word)]
    answer = combine(_touch_word(word, bases) for word in operands)
    if (pattern_place >= 0 or name == "git") and any(mark in word for word in words[1:] for mark in catalog.markers):
        answer = answer.union(Touched(TRUE))
    if _reads_all_below(name, words) and any(load_places().is_above(word) for word in words[1:]):
        answer = answer.union(Touched(UNKNOWN))
    if name in catalog.fetch:
        hosts = (f"http://{word}" for word in words[1:] if not _SCHEME.match(word) and _HOST.match(word))
        answer = answer.union(combine(touch_url(host) for host in hosts))
    if _runs_text(words):
        inner = [word for word in words[1:] if _INNER.search(word)]
        answer = answer.union(combine(touch_line(word, bases, depth + 1) for word in inner))
        answer = answer.union(combine(touch_code(word, bases) for word in inner))
    return answer


def has_marker(pattern: str) -> bool:
    """Return whether a search for this pattern is a search for secrets."""
    return any(mark in pattern for mark in _load_catalog().markers)


def _touch_word(word: str, bases: tuple[str, ...]) -> Touched:
    """Return what a word touches that is, or contains, a path or URL."""
    if _SCHEME.search(word) and not word.lower().startswith("file:"):
        urls = re.findall(r"(?:https?|wss?|ftps?)[:;]/*[^\s\"']+", word, re.I)
        return combine(map(touch_url, urls))
    pieces = [piece for piece in _PIECES.split(word) if piece and piece != word]
    return combine(touch_path(piece, bases) for piece in (word, *pieces))


def _find_folders(views: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield the folders in which a part of the line runs."""
    for view in views:
        moves = strip_program_name(view[0]) in _MOVES
        for place, word in enumerate(view[1:], 1):
            if (moves and not word.startswith("-")) or view[place - 1] in _FOLDER_OPTIONS:
                yield word


def _find_pattern(words: tuple[str, ...]) -> int:
    """Return where the pattern of a search is, or -1."""
    if any(_PATTERN_OPTIONS.fullmatch(word) for word in words[1:]):
        return -1
    start = 2 if words[0] == "git" else 1
    return next((place for place, word in enumerate(words[start:], start) if not word.startswith("-")), -1)


def _reads_all_below(name: str, words: tuple[str, ...]) -> bool:
    letters = _load_catalog().readers.get(name)
    if letters is None:
        return False
    options = "".join(word for word in words if word.startswith("-") and not word.startswith("--"))
    return not letters or any(letter in options for letter in letters) or "--recursive" in words or "--archive" in words


def _prints_secrets(name: str, words: tuple[str, ...]) -> bool:
    resources = tuple(piece for word in words[1:] for piece in _RESOURCES.split(word))  # secret/db
    prefixes = _load_catalog().prints.get(name, ())
    return any(prefix.matches((name, *resources)) for prefix in prefixes) or _prints_environment(name, words)


def _prints_environment(name: str, words: tuple[str, ...]) -> bool:
    """Return whether it prints all variables, or one with a secret's name."""
    catalog = _load_catalog()
    if name in catalog.environment_readers:
        names = [each[1] for word in words[1:] for each in _READ_VARIABLE.finditer(word)]
        return any(not each or _is_secret_name(each) for each in names)
    if name == "ps":
        return any(_SHOWN_ENVIRONMENT.fullmatch(word) for word in words[1:])
    if name not in catalog.environment:
        return False
    arguments = [
        word
        for before, word in pairwise(words)
        if name != "env" or not ("=" in word or word in {"-u", "--unset"} or before in {"-u", "--unset"})
    ]
    operands = [word for word in arguments if not word.startswith("-")]
    if name != "printenv":
        return not operands and set(arguments) <= _LISTING_OPTIONS.get(name, {"-p", "-x"})
    return not operands or any(map(_is_secret_name, operands))


def _is_secret_name(variable: str) -> bool:
    return any(part in _load_catalog().names for part in variable.lower().split("_"))


def _runs_text(words: tuple[str, ...]) -> bool:
    """Return whether the command may run a text that it gets."""
    place = match_program(words)
    return place is None or place.form.hands_on or place.form.code or place.form.stdin or place.form.line is not None


@dataclass(frozen=True, slots=True)
class _CommandCatalog:
    prints: dict[str, list[CommandPrefix]]
    search: frozenset[str]
    fetch: frozenset[str]
    readers: dict[str, str]
    markers: tuple[str, ...]
    environment: frozenset[str]
    environment_readers: frozenset[str]
    names: frozenset[str]


@cache
def _load_catalog() -> _CommandCatalog:
    document = load_document()
    prints: dict[str, list[CommandPrefix]] = {}
    for line in document["commands"]["print"].strip().splitlines():
        prints.setdefault(line.split()[0], []).append(parse_prefix(line))
    return _CommandCatalog(
        prints,
        frozenset(document["programs"]["search"].split()),
        frozenset(document["programs"]["fetch"].split()),
        {name: letters for names, letters in document["readers"].items() for name in names.split()},
        tuple(document["texts"]["markers"].strip().splitlines()),
        frozenset(document["environment"]["programs"].split()),
        frozenset(document["environment"]["readers"].split()),
        frozenset(document["environment"]["names"].split()),
    )
