"""The conditions of a rule, compiled: each looks at one side of the question and answers in three values."""

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
from toolcards.core.policy.truth import FALSE, OPAQUE, TRUE, UNKNOWN, Truth

Texts = Callable[[PolicyRequest], tuple[str, ...]]


class Condition(Protocol):
    """One condition of a clause. `segment` is the part of a shell command that is being judged, if any."""

    @property
    def name(self) -> str:
        """What it looks at, for explanations: `tool`, `/command cmd`."""

    @property
    def cost(self) -> int:
        """Cheap conditions are asked first; those with cost 0 say nothing about arguments."""

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Answer for this question."""

    def actual(self, context: EvaluationContext) -> Any:
        """Return what was looked at, for explanations; it may hold secrets."""


@dataclass(frozen=True, slots=True)
class LabelCondition:
    """The tool, kind, source, environment, user or agent path is one of these, or looks like one.

    `get` gives the texts that are compared, `show` those that people are shown. `every`: all of them must be wanted.
    """

    name: str
    plain: frozenset[str]
    globs: tuple[Callable[[str], bool], ...]
    get: Texts
    show: Texts
    every: bool = False
    cost: int = 0

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return TRUE if any of the texts is wanted, or all of them are; what was not stated is none of them."""
        texts = self.get(context.request)
        if self.globs:
            context.step(len(self.globs))
        if self.every:
            return TRUE if texts and all(map(self._wants, texts)) else FALSE
        for text in texts:
            if text in self.plain:
                return TRUE
            for matches in self.globs:
                if matches(text):
                    return TRUE
        return FALSE

    def _wants(self, text: str) -> bool:
        return text in self.plain or any(matches(text) for matches in self.globs)

    def actual(self, context: EvaluationContext) -> Any:
        """Return the texts."""
        return list(self.show(context.request))


def build_label_condition(
    name: str, wanted: list[str], get: Texts, *, show: Texts | None = None, every: bool = False
) -> LabelCondition:
    """Return the condition; `*` in a wanted text stands for anything."""
    globs = tuple(compile_glob(text) for text in wanted if "*" in text)
    return LabelCondition(name, frozenset(text for text in wanted if "*" not in text), globs, get, show or get, every)


@dataclass(frozen=True, slots=True)
class TimeWindowCondition:
    """The time of day, in a place's own clock. A window over midnight belongs to the day it began on."""

    zone: ZoneInfo
    days: frozenset[int]
    start: int  # minutes after midnight
    end: int
    name: str = "when"
    cost: int = 0

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return whether it is inside the window; UNKNOWN if nobody told the time."""
        if context.request.now <= 0:
            return UNKNOWN
        here = datetime.fromtimestamp(context.request.now, self.zone)
        minute, day = here.hour * 60 + here.minute, here.weekday()
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
    """This call is more than the allowed number of calls of this tool within the last `per` seconds."""

    over: int
    per: int
    scope: str
    name: str = "rate"
    cost: int = 0

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return whether the limit is passed; UNKNOWN if nobody counted."""
        count = context.request.counts.get((self.scope, self.per))
        return UNKNOWN if count is None else Truth(count + 1 > self.over)

    def actual(self, context: EvaluationContext) -> Any:
        """Return the number of earlier calls."""
        return context.request.counts.get((self.scope, self.per))


@dataclass(frozen=True, slots=True)
class ArgumentCondition:
    """A matcher's question about the values at a path of the input.

    `every`: all values must answer yes, else one is enough. `by_segment`: it stands in an exception about a
    shell command and is asked of each segment's own text. `wide`: doubt counts as a match.
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
            return self._of_segment(context, segment)
        readings = context.readings(self.path, self.matcher.read)
        if readings is None:
            return UNKNOWN
        if not readings.values:
            return self.matcher.absent
        context.step(self.matcher.steps(readings, self.operand))
        return matchers.match_readings(self.matcher, readings.values, self.operand, every=self.every)

    def _of_segment(self, context: EvaluationContext, segment: CommandSegment) -> Truth:
        context.step(matchers.count_text_steps(self.matcher, segment.text, self.operand))
        here = matchers.match_value(self.matcher, segment.text, self.operand)
        if self.wide:
            return max(here, self.check(context, None))
        exact = self.matcher.name in {"eq", "in"}  # the whole text of an opaque command is still itself
        return here if exact or not segment.opaque else min(here, UNKNOWN)

    def actual(self, context: EvaluationContext) -> Any:
        """Return the value, or the values."""
        values = context.values(self.path) or ()
        return values[0] if len(values) == 1 else list(values)


_TRUTHS = {Likelihood.NO: FALSE, Likelihood.MAYBE: OPAQUE, Likelihood.YES: TRUE}
_WIDE_STEPS = 4  # what it takes to ask whether a short command may run one that a rule names


@dataclass(frozen=True, slots=True)
class CommandCondition:
    """A question about the shell command at a path: what it begins with, or what it does; see `shell.rule_operands`.

    `named`: keys of the input about which other conditions of the same clause say something.
    `names_tool`: the rule says for which tools it is meant.
    """

    path: tuple[str, ...]
    matcher: Matcher
    operand: CommandOperand | EffectOperand
    every: bool
    wide: bool
    named: frozenset[str] = frozenset()
    names_tool: bool = False
    cost: int = 2

    @property
    def name(self) -> str:
        """Return the path and the operator."""
        return f"{format_pointer(self.path)} {self.matcher.name}"

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return the answer for one segment, or over all segments of all commands at the path."""
        if segment is not None:
            return self._of_script(context, segment.alone)
        scripts = context.scripts(self.path)
        if scripts is None:
            return UNKNOWN
        answers = [self._of_script(context, script) for script in scripts]
        if not answers:
            return FALSE
        return min(answers) if self.every else max(answers)

    def _of_script(self, context: EvaluationContext, script: Script | None) -> Truth:
        if script is None:
            return UNKNOWN
        if self.wide:
            context.step(_WIDE_STEPS + len(script.line) // CHARACTERS)
            answer = self.operand.ask_widely(script)
            context.doubt = context.doubt or (script.doubt if answer is Likelihood.MAYBE else "")
            return _TRUTHS[answer]
        context.step(len(script.segments))
        answer, why = min((self.operand.ask_narrowly(part) for part in script.segments), key=lambda pair: pair[0])
        if answer is Likelihood.YES and (
            why := context.why_not_alone(self.path, self.named, names_tool=self.names_tool)
        ):
            answer = Likelihood.MAYBE
        context.doubt = context.doubt or why
        return _TRUTHS[answer]

    def actual(self, context: EvaluationContext) -> Any:
        """Return the command."""
        values = context.values(self.path) or ()
        return values[0] if len(values) == 1 else list(values)


def format_pointer(path: tuple[str, ...]) -> str:
    """Return the path as a JSON Pointer."""
    return "".join(f"/{token.replace('~', '~0').replace('/', '~1')}" for token in path)


def parse_pointer(text: str) -> tuple[str, ...]:
    """Return the steps of a JSON Pointer; raise ValueError if it is none."""
    if text and not text.startswith("/"):
        raise ValueError("expects a JSON Pointer such as /command")
    return tuple(_unescape_tokens(text))


def _unescape_tokens(text: str) -> Iterator[str]:
    for token in text.split("/")[1:]:
        if token.replace("~0", "").replace("~1", "").count("~"):
            raise ValueError("has a ~ that is neither ~0 nor ~1")
        yield token.replace("~1", "/").replace("~0", "~")
