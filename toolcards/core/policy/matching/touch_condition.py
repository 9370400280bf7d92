"""The condition on what the values at a path of the input touch; see `touches`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolcards.core.policy.evaluation_context import CHARACTERS, EvaluationContext, count_characters
from toolcards.core.policy.matching.conditions import format_pointer
from toolcards.core.policy.matching.touched_commands import Touched
from toolcards.core.policy.matching.touches import TouchHints, find_touched, match_touched
from toolcards.core.policy.shell.script import CommandSegment
from toolcards.core.policy.truth import FALSE, UNKNOWN, Truth, negate


@dataclass(frozen=True, slots=True)
class TouchCondition:
    """Whether the values at a path touch one of `operand`, read once for all rules.

    `every`: all values must, else one is enough. `avoids`: none of them may.
    """

    path: tuple[str, ...]
    operand: frozenset[str]
    every: bool
    avoids: bool = False
    cost: int = 3

    @property
    def name(self) -> str:
        """Return the path and the operator."""
        return f"{format_pointer(self.path)} {'avoids' if self.avoids else 'touches'}"

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return the answer over all values at the path."""
        answers_by_value = context.remember(("touches", self.path), lambda: self._read(context))
        context.step()
        if answers_by_value is None:
            return UNKNOWN
        answers = [match_touched(each, self.operand) for each in answers_by_value]
        if self.avoids:
            return negate(max(answers, default=FALSE))
        if not answers:
            return FALSE
        return min(answers) if self.every else max(answers)

    def _read(self, context: EvaluationContext) -> tuple[Touched, ...] | None:
        values = context.values(self.path)
        if values is None:
            return None
        context.step(sum([1 + count_characters(value) // CHARACTERS for value in values]))
        hints = TouchHints(context.request.tool, context.request.kinds, context.step)
        keys = ["", *[token for token in self.path if token != "*" and not token.isdigit()]]  # noqa: S105
        return tuple([find_touched(value, hints, keys[-1]) for value in values])

    def actual(self, context: EvaluationContext) -> Any:
        """Return the value, or the values."""
        values = context.values(self.path) or ()
        return values[0] if len(values) == 1 else list(values)
