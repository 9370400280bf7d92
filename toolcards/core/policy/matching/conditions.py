"""The compiled conditions of a rule: each reads one part of the call and has a three-valued answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from toolcards.core.policy.evaluation_context import CHARACTERS, EvaluationContext
from toolcards.core.policy.matching import matchers
from toolcards.core.policy.matching.matchers import Matcher
from toolcards.core.policy.matching.operands import compile_glob
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.shell.rule_operands import CommandOperand, EffectOperand
from toolcards.core.policy.shell.script import CommandSegment, Likelihood, Script
from toolcards.core.policy.truth import FALSE, OPAQUE, TRUE, UNKNOWN, Truth, to_truth

MCP = "mcp__"  # starts the qualified names of MCP tools
Texts = Callable[[PolicyRequest], tuple[str, ...]]


class Condition(Protocol):
    """One condition of a clause. `segment` is the part of a shell command under evaluation, if any."""

    @property
    def name(self) -> str:
        """The part of the call that it reads: `tool`, `/command cmd`."""

    @property
    def cost(self) -> int:
        """The order of evaluation; 0 if it does not read arguments."""

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return the answer for this call."""

    def actual(self, context: EvaluationContext) -> Any:
        """Return the value that was read; it may be a secret."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern with `*`: the text before the first one, and its test."""

    start: str
    matches: Callable[[str], bool]

    def is_about(self, start: str) -> bool:
        """Return whether the pattern names no server, or this one.

        `mcp__docs__*` is about `docs`, not about a server `docs__prod`.
        """
        names_server = self.start.startswith(MCP) and "__" in self.start[len(MCP) :]
        return not names_server or (
            bool(start) and self.start.startswith(start) and "__" not in self.start[len(start) :]
        )


@dataclass(frozen=True, slots=True)
class LabelCondition:
    """The tool, kind, source, environment, user or agent path is one of these, or matches a pattern.

    `get` returns the texts that are compared, `show` those for people. `every`: all texts must match. `get_possible`
    returns texts that are less certain: only a pattern that begins with a name matches them. `get_start` returns how a
    text begins that a pattern may match if it names a server of MCP tools.
    """

    name: str
    plain: frozenset[str]
    globs: tuple[Glob, ...]
    get: Texts
    show: Texts
    every: bool = False
    get_possible: Texts | None = None
    get_start: Callable[[PolicyRequest], str] | None = None
    cost: int = 0

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return whether any text matches, or all of them.

        Without a text the answer is FALSE.
        """
        texts = self.get(context.request)
        if self.globs:
            context.step(len(self.globs))
        if self.every:
            return TRUE if texts and all(map(self._accepts, texts)) else FALSE
        globs = self.globs
        if self.get_start is not None and globs:
            start = self.get_start(context.request)
            globs = tuple(glob for glob in globs if glob.is_about(start))
        if any(text in self.plain or any(glob.matches(text) for glob in globs) for text in texts):
            return TRUE
        possible_texts = self.get_possible(context.request) if self.get_possible is not None else ()
        named_globs = [glob for glob in globs if glob.start]
        return to_truth(
            any(text in self.plain or any(glob.matches(text) for glob in named_globs) for text in possible_texts)
        )

    def _accepts(self, text: str) -> bool:
        return text in self.plain or any(glob.matches(text) for glob in self.globs)

    def actual(self, context: EvaluationContext) -> Any:
        """Return the texts."""
        return list(self.show(context.request))


def build_label_condition(
    name: str, patterns: list[str], get: Texts, *, show: Texts | None = None, every: bool = False, **more: Any
) -> LabelCondition:
    """Return the condition; `*` in a pattern matches any text."""
    globs = tuple(Glob(text.partition("*")[0], compile_glob(text)) for text in patterns if "*" in text)
    plain = frozenset(text for text in patterns if "*" not in text)
    return LabelCondition(name, plain, globs, get, show or get, every, **more)


@dataclass(frozen=True, slots=True)
class TimeWindowCondition:
    """The local time of day. A window over midnight belongs to the day on which it begins."""

    zone: ZoneInfo
    days: frozenset[int]
    start: int  # minutes after midnight
    end: int
    name: str = "when"
    cost: int = 0

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return whether the time is in the window; UNKNOWN without a time."""
        if context.request.now <= 0:
            return UNKNOWN
        local_time = datetime.fromtimestamp(context.request.now, self.zone)
        minute, day = local_time.hour * 60 + local_time.minute, local_time.weekday()
        if self.start < self.end:
            return Truth(self.start <= minute < self.end and day in self.days)
        if minute >= self.start:
            return Truth(day in self.days)
        return Truth(minute < self.end and (day - 1) % 7 in self.days)

    def actual(self, context: EvaluationContext) -> Any:
        """Return the local time."""
        now = context.request.now
        return datetime.fromtimestamp(now, self.zone).isoformat(timespec="minutes") if now > 0 else None


@dataclass(frozen=True, slots=True)
class RateCondition:
    """Whether the call exceeds the allowed number of calls of its tool within the last `per` seconds."""

    over: int
    per: int
    scope: str
    name: str = "rate"
    cost: int = 0

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return whether the limit is exceeded; UNKNOWN without a count."""
        count = context.request.counts.get((self.scope, self.per))
        return UNKNOWN if count is None else Truth(count + 1 > self.over)

    def actual(self, context: EvaluationContext) -> Any:
        """Return the number of earlier calls."""
        return context.request.counts.get((self.scope, self.per))


@dataclass(frozen=True, slots=True)
class ArgumentCondition:
    """An operator applied to the values at a path of the input.

    `every`: all values must match, else one is enough. `by_segment`: it belongs to an exception about a shell command
    and is checked for each segment's text. `wide`: doubt counts as a match.
    """

    path: tuple[str, ...]
    matcher: Matcher
    operand: Any
    every: bool
    wide: bool
    by_segment: bool = False
    cost: int = 1

    @property
    def name(self) -> str:
        """Return the path and the operator."""
        return f"{format_pointer(self.path)} {self.matcher.name}"

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return the answer over all values at the path."""
        if segment is not None and self.by_segment:
            return self._check_segment(context, segment)
        readings = context.readings(self.path, self.matcher.read)
        if readings is None:
            return UNKNOWN
        if not readings.values:
            return self.matcher.absent
        context.step(self.matcher.steps(readings, self.operand))
        return matchers.match_readings(self.matcher, readings.values, self.operand, every=self.every)

    def _check_segment(self, context: EvaluationContext, segment: CommandSegment) -> Truth:
        context.step(matchers.count_text_steps(self.matcher, segment.text, self.operand))
        answer = matchers.match_value(self.matcher, segment.text, self.operand)
        if self.wide:
            return max(answer, self.check(context, None))
        exact = self.matcher.name in {"eq", "in"}  # the text of an opaque command is still exact
        return answer if exact or not segment.opaque else min(answer, UNKNOWN)

    def actual(self, context: EvaluationContext) -> Any:
        """Return the value, or the values."""
        values = context.values(self.path) or ()
        return values[0] if len(values) == 1 else list(values)


_TRUTHS = (FALSE, OPAQUE, TRUE)  # by Likelihood
_WIDE_STEPS = 4  # the cost of matching a short command with the commands of a rule


@dataclass(frozen=True, slots=True)
class CommandCondition:
    """A condition on the shell command at a path: its first words or its effects; see `shell.rule_operands`.

    The path () is where the tool takes its command.

    `covered_keys`: keys of the input that other conditions of the same clause read.
    `names_tool`: the rule names its tools.
    """

    path: tuple[str, ...]
    matcher: Matcher
    operand: CommandOperand | EffectOperand
    every: bool
    wide: bool
    covered_keys: frozenset[str] = frozenset()
    names_tool: bool = False
    cost: int = 2

    @property
    def name(self) -> str:
        """Return the path and the operator."""
        return f"{format_pointer(self.path) or 'command'} {self.matcher.name}"

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return the answer for one segment or all commands."""
        if segment is not None:
            return self._check_script(context, segment.alone)
        scripts = context.scripts(self.path)
        if scripts is None:
            return UNKNOWN
        answers = [self._check_script(context, script) for script in scripts]
        if not answers:
            is_covered = isinstance(self.operand, EffectOperand) and self.operand.covers_tool(context.request.kinds)
            return to_truth(is_covered and not self.path)
        return min(answers) if self.every else max(answers)

    def _check_script(self, context: EvaluationContext, script: Script | None) -> Truth:
        if script is None:
            return UNKNOWN
        if self.wide:
            context.step(_WIDE_STEPS + len(script.line) // CHARACTERS)
            answer = self.operand.match_widely(script)
            context.doubt = context.doubt or (script.doubt if answer is Likelihood.MAYBE else "")
            return _TRUTHS[answer]
        context.step(len(script.segments))
        answer, why = min((self.operand.match_narrowly(part) for part in script.segments), key=lambda pair: pair[0])
        if answer is Likelihood.YES and (
            why := context.explain_argument_doubt(self.path, self.covered_keys, names_tool=self.names_tool)
        ):
            answer = Likelihood.MAYBE
        context.doubt = context.doubt or why
        return _TRUTHS[answer]

    def actual(self, context: EvaluationContext) -> Any:
        """Return the command."""
        return context.command(self.path)


def format_pointer(path: tuple[str, ...]) -> str:
    """Return the path as a JSON Pointer."""
    return "".join(f"/{token.replace('~', '~0').replace('/', '~1')}" for token in path)


def parse_pointer(text: str) -> tuple[str, ...]:
    """Return the steps of a JSON Pointer; raise ValueError for other texts."""
    if text and not text.startswith("/"):
        raise ValueError("expects a JSON Pointer such as /command")
    return tuple(_unescape_tokens(text))


def _unescape_tokens(text: str) -> Iterator[str]:
    for token in text.split("/")[1:]:
        if token.replace("~0", "").replace("~1", "").count("~"):
            raise ValueError("has a ~ that is neither ~0 nor ~1")
        yield token.replace("~1", "/").replace("~0", "~")
