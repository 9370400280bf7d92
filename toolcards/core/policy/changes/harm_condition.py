"""The condition `harms`: whether a call does something that an agent never needs to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolcards.core.policy.changes.harms import find_harms
from toolcards.core.policy.evaluation_context import CHARACTERS, EvaluationContext, count_characters
from toolcards.core.policy.shell.script import CommandSegment
from toolcards.core.policy.truth import UNKNOWN, Truth, to_truth

_COMMAND_STEPS = 64  # to look at each command of a line


@dataclass(frozen=True, slots=True)
class HarmCondition:
    """Whether the call does one of these harms; it has no doubts, see `harms`."""

    operand: frozenset[str]
    name: str = "call harms"
    cost: int = 3

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return whether the call certainly does one of them."""
        harms: frozenset[str] | None = context.remember(("harms",), lambda: self._read(context))
        context.step()
        return UNKNOWN if harms is None else to_truth(bool(harms & self.operand))

    def _read(self, context: EvaluationContext) -> frozenset[str] | None:
        if not context.request.has_input:
            return None
        scripts = context.scripts(()) or ()
        segments = sum(len(script.segments) for script in scripts if script is not None)
        context.step(1 + _COMMAND_STEPS * segments + count_characters(context.request.input) // CHARACTERS)
        return find_harms(context.request, scripts)

    def actual(self, context: EvaluationContext) -> Any:
        """Return the harms."""
        harms: frozenset[str] | None = context.remember(("harms",), lambda: self._read(context))
        return sorted(harms or ())
