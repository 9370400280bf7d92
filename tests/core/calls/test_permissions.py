"""How a call got its permission, in one word, on the day of the call."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardApproval, CardDecision, Milestones, ToolCallState
from toolcards.core.calls.facts import Actor
from toolcards.core.calls.permissions import find_permission, is_refused, is_retryable
from toolcards.core.calls.reducer import apply_fact

NOON = Milestones(started=100 * 86_400 + 43_200.0, available=100 * 86_400 + 43_200.0, finished=101 * 86_400.0)
ALLOW, DENY, ASK = (CardDecision(effect) for effect in ("allow", "deny", "ask"))
DENIED = {"state": ToolCallState.OUTPUT_DENIED, "denied_by": Actor("host", "Claude Code")}


@pytest.mark.parametrize(("fields", "word"), [
    ({}, None), ({"decision": ALLOW}, "allowed"), ({"decision": DENY}, "denied"),
    ({"decision": ASK, "approval": CardApproval(opener="gate")}, "asked"),
    ({"decision": ALLOW, "approval": CardApproval(state="denied")}, "asked"),
    ({"decision": ALLOW, "approval": CardApproval(automatic=True)}, "allowed"),
    ({"decision": ASK, "approval": CardApproval(opener="gate", twin="apr_1")}, "allowed"),
    ({"decision": ALLOW, **DENIED}, "refused"), ({"decision": ALLOW, "removed": True}, None),
])  # fmt: skip
def test_a_decided_call_has_one_word(fields: dict[str, object], word: str | None) -> None:
    permission = find_permission(Card("c", times=NOON, **fields))  # type: ignore[arg-type]
    assert permission == ((100, word) if word else None)


ANN, HOST = f.Actor("human", "ann"), f.Actor("host", "Claude Code")
READY = f.InputReady("c", "Bash", {"command": "ls"}, True)
REFUSAL = f.OutputDenied("c", "too risky", HOST)


def play(*facts: Any) -> Card:
    card = Card("c")
    for fact in facts:
        card = apply_fact(card, fact)
    return card


@pytest.mark.parametrize(("facts", "expected"), [
    ([READY, REFUSAL], (True, True)),
    ([READY, f.PolicyDecided("c", "allow"), REFUSAL], (True, True)),
    ([READY, f.PolicyDecided("c", "deny"), REFUSAL], (True, False)),
    ([READY, f.OutputDenied("c", "no", ANN)], (False, False)),
    ([READY, f.OutputDenied("c", "no", f.Actor("host"))], (False, False)),
    ([READY, f.OutputReady("c", 1)], (False, False)),
    ([REFUSAL], (True, False)),
    ([READY, REFUSAL, f.RetryChanged("c", "granted", ANN)], (True, False)),
    ([READY, REFUSAL, f.CallRemoved("c")], (True, False)),
])  # fmt: skip
def test_a_refusal_can_be_answered_while_nothing_else_denied_the_call(facts: Any, expected: tuple[bool, bool]) -> None:
    card = play(*facts)
    assert (is_refused(card), is_retryable(card)) == expected


@pytest.mark.parametrize(("states", "expected"), [
    (["granted"], "granted"), (["granted", "used"], "used"), (["granted", "dismissed"], "granted"),
    (["dismissed", "granted"], "dismissed"), (["used"], ""), (["dismissed", "used"], "dismissed"),
    (["granted", "used", "granted", "used"], "used"),
])  # fmt: skip
def test_a_retry_is_given_once_and_used_once(states: Any, expected: str) -> None:
    card = play(READY, REFUSAL, *(f.RetryChanged("c", state, ANN) for state in states))
    assert card.retry == expected and card.retry_by == (ANN if expected else None)
