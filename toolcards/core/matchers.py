"""What a rule may ask about one value of a call's input; one registered function per question.

To add a question: write `name(value, wanted) -> Truth` under `@matcher(...)` with a docstring (the editor
shows it as help) and add rows to its table in the tests. The value is the agent's and hostile: whoever
cannot tell says UNKNOWN, which counts as a match for ask and deny and as none for allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from toolcards.core import shapes
from toolcards.core.canonical import NotCanonical, canonical
from toolcards.core.places import UNDECIDED, inside, parsed_address, parsed_host, wanted_host, wanted_path
from toolcards.core.shapes import TYPES, Shape
from toolcards.core.shell.reader import Answer, read_command
from toolcards.core.shell.wanted import WantedCommands, WantedEffects, read_effect
from toolcards.core.shell.words import Words, read_words

Value: TypeAlias = Any  # the agent's own JSON

MAX_TEXT = 64 * 1024


class Truth(float, Enum):
    """Yes, no, or cannot tell; `min` is AND, `max` is OR.

    OPAQUE is the softer "cannot tell": a shell command that is not plain and does not spell the words asked for.
    """

    FALSE = 0.0
    OPAQUE = 0.25
    UNKNOWN = 0.5
    TRUE = 1.0


FALSE, OPAQUE, UNKNOWN, TRUE = Truth.FALSE, Truth.OPAQUE, Truth.UNKNOWN, Truth.TRUE
_NOT = {FALSE: TRUE, TRUE: FALSE, OPAQUE: UNKNOWN, UNKNOWN: UNKNOWN}


def negate(truth: Truth) -> Truth:
    """Return the opposite; what cannot be told stays so."""
    return _NOT[truth]


# ---------------------------------------------------------------- the registry


@dataclass(frozen=True, slots=True)
class Matcher:
    """One question: its name in documents, the words the editor shows, and how it is answered."""

    name: str
    label: str
    help: str
    shape: Shape
    test: Callable[[Value, Any], Truth]
    absent: Truth = FALSE  # the answer where the path leads nowhere
    text_only: bool = False  # the value must be a text of sane length and Unicode
    command: bool = False  # judged per segment of a shell command; see conditions.CommandCondition


MATCHERS: dict[str, Matcher] = {}
Test: TypeAlias = Callable[[Any, Any], Truth]


def matcher(
    name: str, *, label: str, shape: Shape, absent: Truth = FALSE, text_only: bool = False, command: bool = False
) -> Callable[[Test], Test]:
    """Register a question under its name."""

    def register(test: Test) -> Test:
        words = " ".join((test.__doc__ or "").split())
        MATCHERS[name] = Matcher(name, label, words, shape, test, absent, text_only, command)
        return test

    return register


def ask(question: Matcher, value: Value, wanted: Any) -> Truth:
    """Return the matcher's answer about a value that is there."""
    if question.text_only and not _sane(value):
        return UNKNOWN
    return question.test(value, wanted)


def _sane(value: Value) -> bool:
    """Whether the value is a text we dare to judge."""
    if type(value) is not str or len(value) > MAX_TEXT:
        return False
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


# ---------------------------------------------------------------- the questions


@matcher("eq", label="is", shape=shapes.JSON)
def eq(value: Value, wanted: bytes) -> Truth:
    """The value is exactly this: same type, same content (1 is 1.0 but neither true nor "1")."""
    try:
        return Truth(canonical(value) == wanted)
    except NotCanonical:
        return UNKNOWN


@matcher("in", label="is one of", shape=shapes.JSON_LIST)
def is_in(value: Value, wanted: frozenset[bytes]) -> Truth:
    """The value is exactly one of these."""
    try:
        return Truth(canonical(value) in wanted)
    except NotCanonical:
        return UNKNOWN


@matcher("prefix", label="starts with", shape=shapes.TEXTS, text_only=True)
def prefix(value: str, wanted: tuple[str, ...]) -> Truth:
    """The text starts with this. For shell commands use `cmd`: a prefix says nothing about what follows."""
    return Truth(value.startswith(wanted))


@matcher("glob", label="looks like", shape=shapes.GLOBS, text_only=True)
def glob(value: str, wanted: tuple[Callable[[str], bool], ...]) -> Truth:
    """The whole text looks like this, where * stands for anything and nothing else is special."""
    return Truth(any(matches(value) for matches in wanted))


@matcher("re2", label="matches the pattern", shape=shapes.PATTERNS, text_only=True)
def full_match(value: str, wanted: tuple[Any, ...]) -> Truth:
    """The whole text matches this RE2 regular expression."""
    return Truth(any(pattern.fullmatch(value) is not None for pattern in wanted))


@matcher("exists", label="is there", shape=shapes.NOTHING)
def exists(value: Value, wanted: None) -> Truth:
    """There is such a value, even if it is null."""
    return TRUE


@matcher("absent", label="is not there", shape=shapes.NOTHING, absent=TRUE)
def absent(value: Value, wanted: None) -> Truth:
    """There is no such value."""
    return FALSE


@matcher("type", label="has the type", shape=shapes.TYPE_NAMES)
def has_type(value: Value, wanted: frozenset[str]) -> Truth:
    """The value is a string, number, integer, boolean, object, array or null."""
    if value is None:
        return Truth("null" in wanted)
    name = TYPES.get(type(value))
    if name is None:
        return UNKNOWN
    whole = name == "number" and float(value).is_integer()
    return Truth(name in wanted or (whole and "integer" in wanted))


@matcher("len_gt", label="is longer than", shape=shapes.COUNT)
def len_gt(value: Value, wanted: int) -> Truth:
    """The text has more characters, or the list or object more entries, than this."""
    return Truth(len(value) > wanted) if isinstance(value, str | list | dict) else UNKNOWN


@matcher("gt", label="is more than", shape=shapes.NUMBER)
def gt(value: Value, wanted: float) -> Truth:
    """The number is greater than this; a number written as text cannot be told."""
    return Truth(value > wanted) if _comparable(value) else UNKNOWN


@matcher("lt", label="is less than", shape=shapes.NUMBER)
def lt(value: Value, wanted: float) -> Truth:
    """The number is less than this; a number written as text cannot be told."""
    return Truth(value < wanted) if _comparable(value) else UNKNOWN


def _comparable(value: Value) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


@matcher("path_under", label="is a path under", shape=shapes.each(wanted_path), text_only=True)
def path_under(value: str, wanted: tuple[Any, ...]) -> Truth:
    """The path is this directory or below it, by its spelling alone. Paths with .., links of /proc, or a
    base we do not know cannot be told.
    """
    return _any(inside(value, place) for place in wanted)


@matcher("host_in", label="is a URL whose host is", shape=shapes.each(wanted_host), text_only=True)
def host_in(value: str, wanted: tuple[tuple[str, int | None], ...]) -> Truth:
    """The value is a URL whose host is one of these; *.example.com means every host below example.com.
    A URL without scheme, with a user name, or that programs read in different ways cannot be told.
    """
    place = parsed_host(value)
    if place is None:
        return UNKNOWN
    host, port = place
    return Truth(
        any(
            (host.endswith(name[1:]) if name.startswith("*.") else host == name) and (want is None or want == port)
            for name, want in wanted
        )
    )


@matcher("cidr", label="is an address in", shape=shapes.NETWORKS, text_only=True)
def cidr(value: str, wanted: tuple[Any, ...]) -> Truth:
    """The IP address, or the address in the URL, lies in one of these networks. A host name cannot be told."""
    found = parsed_address(value)
    if found is None:
        return UNKNOWN
    address, embedded = found
    if any(address in network for network in wanted):
        return TRUE
    return UNKNOWN if embedded else FALSE


def _wanted_commands(every: list[Words]) -> WantedCommands:
    return WantedCommands(tuple(every))


def _wanted_effects(every: list[str]) -> WantedEffects:
    return WantedEffects(frozenset(every))


@matcher("cmd", label="runs the command", shape=shapes.each(read_words, _wanted_commands), command=True)
def cmd(value: Value, wanted: WantedCommands) -> Truth:
    """The shell command begins with these words. To allow, every part of the line must be allowed by some rule, and
    the words after these must be harmless by the catalogue of programs. To ask or deny, one part is enough, also
    behind sudo, env or sh -c. Lines that are not plain words are asked about.
    """
    script = read_command(value)
    return Truth(script is not None and wanted.ask_widely(script) is Answer.YES)


@matcher("effect", label="does", shape=shapes.each(read_effect, _wanted_effects), command=True)
def effect(value: Value, wanted: WantedEffects) -> Truth:
    """The shell command deletes, writes, sends, or runs other programs; or none of it: it only looks. Say deletes,
    writes, sends, runs or none. To ask or deny, it is enough that the effect cannot be excluded; to allow, every
    part of the line must have these effects and surely no others.
    """
    script = read_command(value)
    return Truth(script is not None and wanted.ask_widely(script) is Answer.YES)


def _any(answers: Any) -> Truth:
    best = FALSE
    for answer in answers:
        if answer is True:
            return TRUE
        if answer is UNDECIDED:
            best = UNKNOWN
    return best
