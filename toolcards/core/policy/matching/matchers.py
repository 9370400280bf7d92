"""The operators of rules: each is one registered function that compares a value of the input with a rule's operand.

To add an operator, write `name(value, operand) -> Truth` under `@matcher(...)` with a docstring for the editor, and add
rows to its table in the tests. Values are hostile: a matcher that cannot decide returns UNKNOWN.

Longer than most modules: it is one list of short functions, in the order in which documents and the editor show them.

`reads` converts a value before rules compare it (it parses a URL, for example). This happens once for a value, not once
for a rule; for UNREADABLE the answer is UNKNOWN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

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
from toolcards.core.policy.matching.operands import (
    TYPES,
    OperandType,
    Value,
    make_text_reader,
    read_canonical,
    read_text,
    read_unchanged,
)
from toolcards.core.policy.matching.touched_commands import Touched
from toolcards.core.policy.matching.touches import match_touched, parse_touch, read_touched
from toolcards.core.policy.places.paths import ParsedPath, is_inside, parse_directory, parse_path
from toolcards.core.policy.shell.command_prefix import parse_prefix
from toolcards.core.policy.shell.rule_operands import CommandOperand, EffectOperand, parse_effect
from toolcards.core.policy.shell.script import Likelihood, read_command
from toolcards.core.policy.statements import only_reads
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth, negate, to_truth

# ---------------------------------------------------------------- the registry


@dataclass(frozen=True, slots=True)
class Matcher:
    """One operator: its name in documents, its texts in the editor, and its test."""

    name: str
    label: str
    help: str
    shape: OperandType
    test: Callable[[Any, Any], Truth]
    absent: Truth = FALSE  # the answer if there is no value at the path
    read: Reader = read_unchanged
    scans: bool = False  # each alternative of a rule reads the entire text
    command: bool = False  # evaluated for each segment of a shell command; see conditions.CommandCondition

    def steps(self, readings: Readings, operand: Any) -> int:
        """Return the cost of comparing all of these values."""
        alternatives = len(operand) if isinstance(operand, tuple) else 1
        return alternatives * (readings.steps if self.scans else len(readings.values))


MATCHERS: dict[str, Matcher] = {}
Test: TypeAlias = Callable[[Any, Any], Truth]


def matcher(
    name: str,
    *,
    label: str,
    shape: OperandType,
    absent: Truth = FALSE,
    reads: Reader = read_unchanged,
    scans: bool = False,
    command: bool = False,
) -> Callable[[Test], Test]:
    """Register an operator under its name."""

    def register(test: Test) -> Test:
        words = " ".join((test.__doc__ or "").split())
        MATCHERS[name] = Matcher(name, label, words, shape, test, absent, reads, scans, command)
        return test

    return register


def match_value(operator: Matcher, value: Value, operand: Any) -> Truth:
    """Return the operator's answer for a value."""
    reading = operator.read(value)
    return UNKNOWN if reading is UNREADABLE else operator.test(reading, operand)


def match_readings(operator: Matcher, readings: tuple[Any, ...], operand: Any, *, every: bool) -> Truth:
    """Return AND or OR of the answers for one or more readings."""
    decisive = FALSE if every else TRUE
    answer = TRUE if every else FALSE
    weigh = min if every else max
    for reading in readings:
        truth = UNKNOWN if reading is UNREADABLE else operator.test(reading, operand)
        if truth is decisive:
            return truth
        answer = weigh(answer, truth)
    return answer


def count_text_steps(operator: Matcher, text: str, operand: Any) -> int:
    """Return the cost of comparing one text."""
    return operator.steps(Readings((text,), 1 + len(text) // CHARACTERS), operand)


# ---------------------------------------------------------------- the operators

_COMMANDS = operands.build_text_type(parse_prefix, CommandOperand.from_prefixes)
_EFFECTS = operands.build_text_type(parse_effect, EffectOperand.from_names)


@matcher("eq", label="is", shape=operands.JSON, reads=read_canonical)
def eq(value: bytes, operand: bytes) -> Truth:
    """The value is equal to this, in type and content.

    1 is equal to 1.0, but not to true or "1".
    """
    return to_truth(value == operand)


@matcher("in", label="is one of", shape=operands.JSON_LIST, reads=read_canonical)
def is_in(value: bytes, operand: frozenset[bytes]) -> Truth:
    """The value is exactly one of these."""
    return to_truth(value in operand)


@matcher("prefix", label="starts with", shape=operands.TEXTS, reads=read_text)
def prefix(value: str, operand: tuple[str, ...]) -> Truth:
    """The text starts with this.

    For shell commands use `cmd`: a prefix does not limit what follows.
    """
    return to_truth(value.startswith(operand))


@matcher("glob", label="matches (glob)", shape=operands.GLOBS, reads=read_text, scans=True)
def glob(value: str, operand: tuple[Callable[[str], bool], ...]) -> Truth:
    """The entire text matches this pattern.

    * matches any text; no other character is special.
    """
    return to_truth(any(matches(value) for matches in operand))


@matcher("re2", label="matches (regex)", shape=operands.PATTERNS, reads=read_text, scans=True)
def full_match(value: str, operand: tuple[Any, ...]) -> Truth:
    """The entire text matches this RE2 regular expression."""
    return to_truth(any(pattern.fullmatch(value) is not None for pattern in operand))


@matcher("exists", label="exists", shape=operands.NOTHING)
def exists(value: Value, operand: None) -> Truth:
    """The value exists, even if it is null."""
    return TRUE


@matcher("absent", label="does not exist", shape=operands.NOTHING, absent=TRUE)
def absent(value: Value, operand: None) -> Truth:
    """The value does not exist."""
    return FALSE


@matcher("type", label="is of type", shape=operands.TYPE_NAMES)
def has_type(value: Value, operand: frozenset[str]) -> Truth:
    """The value is a string, number, integer, boolean, object, array or null."""
    if value is None:
        return to_truth("null" in operand)
    name = TYPES.get(type(value))
    if name is None:
        return UNKNOWN
    is_integer = name == "number" and float(value).is_integer()
    return to_truth(name in operand or (is_integer and "integer" in operand))


@matcher("len_gt", label="is longer than", shape=operands.COUNT)
def len_gt(value: Value, operand: int) -> Truth:
    """The text, list or object is longer than this.

    Characters or entries count.
    """
    return to_truth(len(value) > operand) if isinstance(value, str | list | dict) else UNKNOWN


@matcher("gt", label="is greater than", shape=operands.NUMBER)
def gt(value: Value, operand: float) -> Truth:
    """The number is greater than this.

    The answer is unknown for a number in a text.
    """
    return to_truth(value > operand) if _is_comparable(value) else UNKNOWN


@matcher("lt", label="is less than", shape=operands.NUMBER)
def lt(value: Value, operand: float) -> Truth:
    """The number is less than this.

    The answer is unknown for a number in a text.
    """
    return to_truth(value < operand) if _is_comparable(value) else UNKNOWN


def _is_comparable(value: Value) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


@matcher(
    "path_under",
    label="is a path under",
    shape=operands.build_text_type(parse_directory),
    reads=make_text_reader(parse_path),
)
def path_under(value: ParsedPath, operand: tuple[ParsedPath, ...]) -> Truth:
    """The path is this directory or below it, by its spelling.

    The answer is unknown for paths with .., a leading ~, links of /proc, or an unknown base.
    """
    return _combine_answers(is_inside(value, directory) for directory in operand)


@matcher(
    "host_in",
    label="is a URL whose host is",
    shape=operands.build_text_type(parse_host_pattern),
    reads=make_text_reader(parse_url),
)
def host_in(value: Endpoint, operand: tuple[HostPattern, ...]) -> Truth:
    """The value is an http or https URL of these hosts.

    The URL has the default port. *.example.com means every host below example.com; example.com:8443, example.com:* and
    ssh://example.com name other ports and schemes. The answer is unknown for other ways to the same host, and for URLs
    that programs read in different ways.
    """
    return _combine_answers(host.covers(value) for host in operand)


@matcher(
    "cidr",
    label="is an address in",
    shape=operands.build_text_type(parse_network_pattern),
    reads=make_text_reader(parse_address),
)
def cidr(value: Endpoint, operand: tuple[NetworkPattern, ...]) -> Truth:
    """The value is an IP address in one of these networks.

    It can be in an http or https URL on the default port; 10.0.0.0/8:8080 and 10.0.0.0/8:* name other ports. The answer
    is unknown for a host name.
    """
    return _combine_answers(network.covers(value) for network in operand)


@matcher("touches", label="touches", shape=operands.build_text_type(parse_touch, frozenset), reads=read_touched)
def touches(value: Touched, operand: frozenset[str]) -> Truth:
    """A path, command or URL leads to secrets or a private-address.

    For the whole input, leave the argument empty. Secrets are places such as ~/.ssh, what prints them, and URLs with a
    token; a private-address is one of a private network or of a cloud's metadata.
    """
    return match_touched(value, operand)


@matcher("avoids", label="does not touch", shape=operands.build_text_type(parse_touch, frozenset), reads=read_touched)
def avoids(value: Value, operand: frozenset[str]) -> Truth:
    """No path, command or URL leads to secrets or a private-address.

    This is certain: what may touch them does not avoid them. Lasting answers have it, so that none covers secrets.
    """
    return negate(match_touched(value, operand))


@matcher("inside_project", label="is inside the project", shape=operands.MANIFEST_NAMES)
def inside_project(value: Value, operand: frozenset[str]) -> Truth:
    """The call changes only what is inside the project.

    For everything that a call changes, leave the argument empty. Protected places such as .git do not count as inside,
    except for files that edit tools change and that are named here, such as pom.xml. Without a project the answer is
    unknown.
    """
    return UNKNOWN  # a value alone has no project: see changes.inside_condition


@matcher("harms", label="is a harm of the kind", shape=operands.build_text_type(operands.parse_harm, frozenset))
def harms(value: Value, operand: frozenset[str]) -> Truth:
    """The call certainly does one of these; leave the argument empty.

    system: deletes a home or a folder of the system, or writes over a disk. history: rewrites a protected branch on a
    server. unread-code: runs what it downloads at once. agent-permissions: writes what agents may do. gate: writes the
    key, settings or data of Toolcards. There is no doubt: what is not certain does not hold.
    """
    return FALSE  # a value alone is no call: see changes.harm_condition


@matcher("cmd", label="runs the command", shape=_COMMANDS, command=True)
def cmd(value: Value, operand: CommandOperand) -> Truth:
    """The shell command begins with these words, or is like them.

    To allow, some rule must allow every part of the line, and the catalog of programs must list the words after these
    as harmless. To ask or deny, one part is enough, also behind sudo, env or sh -c. Lines that are not plain words
    require approval.
    """
    script = read_command(value)
    return to_truth(script is not None and operand.match_widely(script) is Likelihood.YES)


@matcher("reads_by_name", label="is of a tool that reads by its name", shape=operands.NOTHING)
def reads_by_name(value: Value, operand: None) -> Truth:
    """Accepted for older documents, for "is of a tool that only reads"."""
    return UNKNOWN  # see changes/limited_tools.py


@matcher(
    "tool_only", label="is of a tool that only", shape=operands.build_text_type(operands.parse_tool_limit, frozenset)
)
def tool_only(value: Value, operand: frozenset[str]) -> Truth:
    """The tool does no more than this; leave the argument empty.

    reads: by its name, it reads or calculates. It is the agent's own, or of a server that the catalog or the rule
    names; it names no secret, and no argument is SQL or code. queries: it runs one SQL query that only reads. notes: by
    its name, it changes notes and drafts that the agent keeps. pages: its browser shows a page of this computer.
    """
    return UNKNOWN  # see changes/limited_tools.py


@matcher("reads_sql", label="only reads a database", shape=operands.NOTHING)
def reads_sql(value: Value, operand: None) -> Truth:
    """The text is one SQL query that only reads.

    Several statements, WITH … DELETE, INTO, FOR UPDATE, and functions that are not known to read do not count.
    """
    if not isinstance(value, str):
        return FALSE
    return TRUE if only_reads(value) else UNKNOWN


@matcher("effect", label="does", shape=_EFFECTS, command=True)
def effect(value: Value, operand: EffectOperand) -> Truth:
    """The shell command has one of these effects.

    The effects are deletes, writes, sends, runs (other programs) and none (read-only). To ask or deny, it is enough
    that the effect cannot be excluded; to allow, every part of the line must have these effects and no others.
    """
    script = read_command(value)
    return to_truth(script is not None and operand.match_widely(script) is Likelihood.YES)


def _combine_answers(answers: Iterable[bool | None]) -> Truth:
    return max(map(to_truth, answers), default=FALSE)
