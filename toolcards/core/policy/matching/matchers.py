"""What a rule may ask about one value of a call's input; one registered function per question.

To add a question: write `name(value, wanted) -> Truth` under `@matcher(...)` with a docstring, which the editor shows,
and add rows to its table in the tests. Values are hostile: a matcher that cannot tell answers UNKNOWN.

`reads` names how a value is understood before rules ask about it (a URL taken apart, for example). That happens once
a value, not once a rule; where it is UNREADABLE the answer is UNKNOWN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted
from typing import Any, TypeAlias

from toolcards.client.common.canonical_json import MAX_INTEGER, NotCanonical, canonicalize
from toolcards.core.policy.evaluation_context import CHARACTERS, UNREADABLE, Reader, Readings
from toolcards.core.policy.matching import operands
from toolcards.core.policy.matching.hosts import (
    Endpoint,
    HostPattern,
    NetworkPattern,
    parse_address,
    parse_host_pattern,
    parse_network_pattern,
    parse_url,
)
from toolcards.core.policy.matching.operands import TYPES, OperandType
from toolcards.core.policy.matching.paths import ParsedPath, is_inside, parse_directory, parse_path
from toolcards.core.policy.shell.command_prefix import CommandPrefix, parse_prefix
from toolcards.core.policy.shell.rule_operands import CommandOperand, EffectOperand, parse_effect
from toolcards.core.policy.shell.script import Likelihood, read_command
from toolcards.core.policy.truth import FALSE, TRUE, UNDECIDED, UNKNOWN, Truth, to_truth

Value: TypeAlias = Any  # the agent's own JSON

MAX_TEXT = 64 * 1024


# ---------------------------------------------------------------- how values are read


def _read_unchanged(value: Value) -> Any:
    return value


def _read_text(value: Value) -> Any:
    """Return a text of sane length and Unicode."""
    if type(value) is not str or len(value) > MAX_TEXT:
        return UNREADABLE
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return UNREADABLE
    return value


def _read_canonical(value: Value) -> Any:
    """Return the RFC 8785 bytes."""
    # Short cuts: there may be thousands of plain texts and whole numbers.
    if type(value) is str and value.isascii() and "\0" not in value:
        return quoted(value).encode()
    if type(value) is int and -MAX_INTEGER <= value <= MAX_INTEGER:
        return b"%d" % value
    try:
        return canonicalize(value)
    except NotCanonical:
        return UNREADABLE


def _make_reader(parse_text: Callable[[str], Any]) -> Reader:
    """Return a reader of texts that `parse_text` understands."""

    def read(value: Value) -> Any:
        text = _read_text(value)
        place = UNDECIDED if text is UNREADABLE else parse_text(text)
        return UNREADABLE if place is UNDECIDED else place

    return read


# ---------------------------------------------------------------- the registry


@dataclass(frozen=True, slots=True)
class Matcher:
    """One question: its name in documents, the words the editor shows, and how it is answered."""

    name: str
    label: str
    help: str
    shape: OperandType
    test: Callable[[Any, Any], Truth]
    absent: Truth = FALSE  # the answer where the path leads nowhere
    read: Reader = _read_unchanged
    scans: bool = False  # each alternative of a rule reads the text from end to end
    command: bool = False  # judged per segment of a shell command; see conditions.Command

    def steps(self, readings: Readings, wanted: Any) -> int:
        """Return what it costs to ask about all of these values."""
        alternatives = len(wanted) if isinstance(wanted, tuple) else 1
        return alternatives * (readings.steps if self.scans else len(readings.values))


MATCHERS: dict[str, Matcher] = {}
Test: TypeAlias = Callable[[Any, Any], Truth]


def matcher(
    name: str,
    *,
    label: str,
    shape: OperandType,
    absent: Truth = FALSE,
    reads: Reader = _read_unchanged,
    scans: bool = False,
    command: bool = False,
) -> Callable[[Test], Test]:
    """Register a question under its name."""

    def register(test: Test) -> Test:
        words = " ".join((test.__doc__ or "").split())
        MATCHERS[name] = Matcher(name, label, words, shape, test, absent, reads, scans, command)
        return test

    return register


def match_value(question: Matcher, value: Value, wanted: Any) -> Truth:
    """Return the matcher's answer about a value that is there."""
    reading = question.read(value)
    return UNKNOWN if reading is UNREADABLE else question.test(reading, wanted)


def match_readings(question: Matcher, readings: tuple[Any, ...], wanted: Any, *, every: bool) -> Truth:
    """Return AND or OR of the answers about all readings, of which there is one."""
    decisive = FALSE if every else TRUE
    answer = TRUE if every else FALSE
    weigh = min if every else max
    for reading in readings:
        truth = UNKNOWN if reading is UNREADABLE else question.test(reading, wanted)
        if truth is decisive:
            return truth
        answer = weigh(answer, truth)
    return answer


def count_text_steps(question: Matcher, text: str, wanted: Any) -> int:
    """Return what it costs to ask about one text."""
    return question.steps(Readings((text,), 1 + len(text) // CHARACTERS), wanted)


# ---------------------------------------------------------------- the questions


@matcher("eq", label="is", shape=operands.JSON, reads=_read_canonical)
def eq(value: bytes, wanted: bytes) -> Truth:
    """The value is exactly this: same type, same content (1 is 1.0 but neither true nor "1")."""
    return to_truth(value == wanted)


@matcher("in", label="is one of", shape=operands.JSON_LIST, reads=_read_canonical)
def is_in(value: bytes, wanted: frozenset[bytes]) -> Truth:
    """The value is exactly one of these."""
    return to_truth(value in wanted)


@matcher("prefix", label="starts with", shape=operands.TEXTS, reads=_read_text)
def prefix(value: str, wanted: tuple[str, ...]) -> Truth:
    """The text starts with this. For shell commands use `cmd`: a prefix says nothing about what follows."""
    return to_truth(value.startswith(wanted))


@matcher("glob", label="looks like", shape=operands.GLOBS, reads=_read_text, scans=True)
def glob(value: str, wanted: tuple[Callable[[str], bool], ...]) -> Truth:
    """The whole text looks like this, where * stands for anything and nothing else is special."""
    for matches in wanted:
        if matches(value):
            return TRUE
    return FALSE


@matcher("re2", label="matches the pattern", shape=operands.PATTERNS, reads=_read_text, scans=True)
def full_match(value: str, wanted: tuple[Any, ...]) -> Truth:
    """The whole text matches this RE2 regular expression."""
    for pattern in wanted:
        if pattern.fullmatch(value) is not None:
            return TRUE
    return FALSE


@matcher("exists", label="is there", shape=operands.NOTHING)
def exists(value: Value, wanted: None) -> Truth:
    """There is such a value, even if it is null."""
    return TRUE


@matcher("absent", label="is not there", shape=operands.NOTHING, absent=TRUE)
def absent(value: Value, wanted: None) -> Truth:
    """There is no such value."""
    return FALSE


@matcher("type", label="has the type", shape=operands.TYPE_NAMES)
def has_type(value: Value, wanted: frozenset[str]) -> Truth:
    """The value is a string, number, integer, boolean, object, array or null."""
    if value is None:
        return to_truth("null" in wanted)
    name = TYPES.get(type(value))
    if name is None:
        return UNKNOWN
    whole = name == "number" and float(value).is_integer()
    return to_truth(name in wanted or (whole and "integer" in wanted))


@matcher("len_gt", label="is longer than", shape=operands.COUNT)
def len_gt(value: Value, wanted: int) -> Truth:
    """The text has more characters, or the list or object more entries, than this."""
    return to_truth(len(value) > wanted) if isinstance(value, str | list | dict) else UNKNOWN


@matcher("gt", label="is more than", shape=operands.NUMBER)
def gt(value: Value, wanted: float) -> Truth:
    """The number is greater than this; a number written as text cannot be told."""
    return to_truth(value > wanted) if _is_comparable(value) else UNKNOWN


@matcher("lt", label="is less than", shape=operands.NUMBER)
def lt(value: Value, wanted: float) -> Truth:
    """The number is less than this; a number written as text cannot be told."""
    return to_truth(value < wanted) if _is_comparable(value) else UNKNOWN


def _is_comparable(value: Value) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


@matcher(
    "path_under",
    label="is a path under",
    shape=operands.build_text_type(parse_directory),
    reads=_make_reader(parse_path),
)
def path_under(value: ParsedPath, wanted: tuple[ParsedPath, ...]) -> Truth:
    """The path is this directory or below it, by its spelling alone. Paths with .., a leading ~, links of /proc, or a
    base we do not know cannot be told.
    """
    return _combine_answers(is_inside(value, directory) for directory in wanted)


@matcher(
    "host_in",
    label="is a URL whose host is",
    shape=operands.build_text_type(parse_host_pattern),
    reads=_make_reader(parse_url),
)
def host_in(value: Endpoint, wanted: tuple[HostPattern, ...]) -> Truth:
    """The value is an http or https URL, on the default port, whose host is one of these. *.example.com means every
    host below example.com; example.com:8443, example.com:* and ssh://example.com name other ports and schemes.
    Other ways to the same host, and URLs that programs read in different ways, cannot be told.
    """
    return _combine_answers(host.covers(value) for host in wanted)


@matcher(
    "cidr",
    label="is an address in",
    shape=operands.build_text_type(parse_network_pattern),
    reads=_make_reader(parse_address),
)
def cidr(value: Endpoint, wanted: tuple[NetworkPattern, ...]) -> Truth:
    """The IP address, or the address in an http or https URL on the default port, lies in one of these networks.
    10.0.0.0/8:8080 and 10.0.0.0/8:* name other ports. A host name cannot be told.
    """
    return _combine_answers(network.covers(value) for network in wanted)


def _collect_commands(every: list[CommandPrefix]) -> CommandOperand:
    return CommandOperand(tuple(every))


def _collect_effects(every: list[str]) -> EffectOperand:
    return EffectOperand(frozenset(every))


@matcher("cmd", label="runs the command", shape=operands.build_text_type(parse_prefix, _collect_commands), command=True)
def cmd(value: Value, wanted: CommandOperand) -> Truth:
    """The shell command begins with these words. To allow, every part of the line must be allowed by some rule, and
    the words after these must be harmless by the catalogue of programs. To ask or deny, one part is enough, also
    behind sudo, env or sh -c. Lines that are not plain words are asked about.
    """
    script = read_command(value)
    return to_truth(script is not None and wanted.ask_widely(script) is Likelihood.YES)


@matcher("effect", label="does", shape=operands.build_text_type(parse_effect, _collect_effects), command=True)
def effect(value: Value, wanted: EffectOperand) -> Truth:
    """The shell command deletes, writes, sends, or runs other programs; or none of it: it only looks. Say deletes,
    writes, sends, runs or none. To ask or deny, it is enough that the effect cannot be excluded; to allow, every
    part of the line must have these effects and surely no others.
    """
    script = read_command(value)
    return to_truth(script is not None and wanted.ask_widely(script) is Likelihood.YES)


def _combine_answers(answers: Iterable[bool | None]) -> Truth:
    best = FALSE
    for answer in answers:
        if answer is True:
            return TRUE
        if answer is UNDECIDED:
            best = UNKNOWN
    return best
