"""The condition `harms` in a policy: it reads the call once, and has no doubt about one whose input is known."""

from __future__ import annotations

from toolcards.core.policy.changes.harm_condition import HarmCondition
from toolcards.core.policy.evaluation_context import EvaluationContext
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN

SYSTEM = HarmCondition(frozenset({"system"}))


def test_it_holds_for_one_of_its_harms() -> None:
    context = EvaluationContext(PolicyRequest.for_tool("Bash", input={"command": "rm -rf ~"}))
    assert SYSTEM.check(context, None) is TRUE and SYSTEM.actual(context) == ["system"]
    assert HarmCondition(frozenset({"gate", "history"})).check(context, None) is FALSE


def test_a_command_in_doubt_is_no_harm_and_an_unknown_input_may_be_one() -> None:
    opaque = EvaluationContext(PolicyRequest.for_tool("Bash", input={"command": "rm -rf $(cat x)"}))
    assert SYSTEM.check(opaque, None) is FALSE
    assert SYSTEM.check(EvaluationContext(PolicyRequest.for_tool("Bash", has_input=False)), None) is UNKNOWN


def test_a_second_rule_costs_one_step() -> None:
    context = EvaluationContext(PolicyRequest.for_tool("Bash", input={"command": "ls; " * 50 + "ls"}))
    SYSTEM.check(context, None)
    steps = context.steps
    HarmCondition(frozenset({"gate"})).check(context, None)
    assert context.steps == steps + 1
