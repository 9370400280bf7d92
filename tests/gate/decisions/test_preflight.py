"""Broken calls are repaired before the decision, or ended at once with what can be used instead."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

from typing import Any

import pytest

from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit
from toolcards.models import Event, Source, ToolCall

TOOLS = [
    {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                                             "additionalProperties": False}},
    {"name": "send_mail", "input_schema": {"type": "object"}},
]  # fmt: skip


@pytest.fixture
def offering(policy: Any, a_run: Any) -> None:
    policy({"default": "allow", "rules": [{"id": "mail", "effect": "deny", "match": {"tool": ["send_mail"]}}]})
    a_run("r", f.RunStarted(tools=TOOLS))


def ask(source: Source, tool: str, args: Any, call_id: str = "c", attempt: int = 1) -> dict[str, Any]:
    return gate.decide(source, gate.DecisionRequest(run="r", call_id=call_id, tool=tool, args=args, attempt=attempt))


def kinds() -> list[str]:
    return [event.decoded_fact.type for event in Event.objects.order_by("seq")]


def test_a_broken_call_is_repaired_and_the_decision_has_what_may_run(offering: None, source: Source) -> None:
    decision = ask(source, "Get-Weather", {"City": "Rome"})
    assert decision["decision"] == "allow" and decision["permit"]
    assert (decision["tool"], decision["args"]) == ({"name": "get_weather", "source": ""}, {"city": "Rome"})
    card = ToolCall.objects.get().as_card()
    assert (card.tool.name, card.original_tool, card.repair) == (
        "get_weather",
        "Get-Weather",
        "tool name, field name",
    )
    assert card.original_input == {"City": "Rome"}
    assert kinds().index("input-repaired") < kinds().index("decided")


def test_the_repaired_call_is_evaluated_under_its_new_name(offering: None, source: Source) -> None:
    decision = ask(source, "SendMail", {})
    assert (decision["decision"], decision["reason"]["code"]) == ("deny", "rule_denied") and "args" not in decision
    assert ToolCall.objects.get().state == "output-denied"


@pytest.mark.parametrize(("tool", "args", "code", "authority"), [
    ("no_such", {}, "no_such_tool", "runtime"), ("get_weather", {"city": 42}, "invalid_input", "tool"), ("get_weather", {}, "invalid_input", "tool"),
])  # fmt: skip
def test_what_cannot_be_repaired_ends_at_once(
    offering: None, source: Source, tool: str, args: Any, code: str, authority: str
) -> None:
    decision = ask(source, tool, args)
    assert (decision["decision"], decision["reason"]["code"], decision["permit"]) == ("deny", code, None)
    assert decision["by"] == {"kind": "validation", "name": "", "ids": []}
    (row,) = AuditRow.objects.filter(act="decision")
    assert (row.actor_kind, row.details["effect"], row.details["code"]) == ("validation", "deny", code)
    assert "get_weather, send_mail" in decision["reason"]["text"]
    card = ToolCall.objects.get().as_card()
    assert (card.state, card.error.code, card.error.authority, card.error.retryable) == (
        "output-error",
        code,
        authority,
        False,
    )
    assert "decided" not in kinds()


def test_asking_again_gets_the_same_answer(offering: None, source: Source) -> None:
    for tool, args in (("Get-Weather", {"city": "Rome"}), ("nope", {})):
        first, again = ask(source, tool, args, tool), ask(source, tool, args, tool)
        assert {**first, "permit": 0} == {**again, "permit": 0}


def test_a_new_attempt_of_a_broken_call_may_succeed(offering: None, source: Source) -> None:
    assert ask(source, "get_weather", {})["decision"] == "deny"
    assert ask(source, "get_weather", {"city": "Oslo"}, attempt=2)["decision"] == "allow"


def test_a_repeated_mistake_is_reported_as_such(offering: None, source: Source) -> None:
    assert "made before" not in ask(source, "get_weather", {}, "c1")["reason"]["text"]
    assert "made before" in ask(source, "get_weather", {}, "c2")["reason"]["text"]


def test_sending_the_broken_input_again_does_not_undo_the_repair(
    policy: Any, a_run: Any, an_approver: Any, source: Source
) -> None:
    policy({"default": "ask"})
    a_run("r", f.RunStarted(tools=TOOLS))
    decision = ask(source, "Get-Weather", {"City": "Rome"})
    assert decision["decision"] == "ask"
    from tests.support.gate_commands import RecordFacts

    group_commit.execute(RecordFacts(source, "r", [f.InputReady("c", "Get-Weather", {"City": "Rome"}, True)]))
    card = ToolCall.objects.get().as_card()
    assert card.waiting and card.input == {"city": "Rome"} and card.tool.name == "get_weather"


def test_nothing_is_checked_in_a_run_that_announced_nothing(policy: Any, source: Source) -> None:
    policy({"default": "allow"})
    assert ask(source, "Anything", "goes")["decision"] == "allow"


def test_tools_announced_later_count_too(offering: None, source: Source, a_run: Any) -> None:
    assert ask(source, "late", {}, "c1")["decision"] == "deny"
    from tests.support.gate_commands import RecordFacts

    group_commit.execute(RecordFacts(source, "r", [f.RunStarted(tools=[{"name": "late"}])]))
    assert ask(source, "late", {}, "c2")["decision"] == "allow"
