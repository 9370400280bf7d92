"""How a call got its permission, in one word, on the day of the call."""

from __future__ import annotations

import pytest

from toolcards.core.calls.card import Card, CardApproval, CardDecision, Milestones, ToolCallState
from toolcards.core.calls.facts import Actor
from toolcards.core.calls.permissions import find_permission

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
