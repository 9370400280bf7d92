"""Results without a claim, and of which attempt they are."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from tests.support.gated_calls import ASK, DECIDE, QUESTION
from toolcards.audit.rows import AuditRow
from toolcards.models import (
    ToolCall,
)

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_result_without_a_claim_is_ungoverned(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    await call("POST", DECIDE, QUESTION)
    assert (await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"}))[0] == 200
    assert "ungoverned" in dict((await ToolCall.objects.aget()).as_card().anomalies)
    assert await AuditRow.objects.filter(act="ungoverned").aexists()


@pytest.mark.parametrize("rule", [ASK, {**ASK, "effect": "allow"}], ids=["ask", "allow"])
async def test_a_call_that_its_agent_gave_up_is_not_ungoverned_and_may_be_asked_about_again(
    call: Any, policy: Any, an_approver: Any, rule: dict[str, Any]
) -> None:
    await in_thread(policy)({"rules": [rule]})
    _, first, *_ = await call("POST", DECIDE, QUESTION)
    given_up = {"run": "r", "attempt": 1, "outcome": "aborted", "side_effects": "none"}
    assert (await call("POST", "/api/v1/calls/c/result", given_up))[0] == 200
    card = (await ToolCall.objects.aget()).as_card()
    assert (card.state, card.cause, card.anomalies) == ("output-error", "aborted", ())
    if first["permit"]:
        claim = {"call_id": "c", "args_sha256": first["args_sha256"]}
        assert (await call("POST", f"/api/v1/permits/{first['permit']['id']}/claim", claim))[0] == 410
    status, again, *_ = await call("POST", DECIDE, QUESTION)
    assert (status, again["decision"]) == (200, first["decision"])
    assert again["permit"] != first["permit"] or first["permit"] is None


async def test_giving_up_an_attempt_ends_no_other_one(call: Any, policy: Any, an_approver: Any) -> None:
    """The report may be late, and its attempt may never have arrived."""
    await in_thread(policy)({"rules": [{**ASK, "effect": "allow"}]})
    _, second, *_ = await call("POST", DECIDE, QUESTION | {"attempt": 2})
    claim = {"call_id": "c", "attempt": 2, "args_sha256": second["args_sha256"]}
    assert (await call("POST", f"/api/v1/permits/{second['permit']['id']}/claim", claim))[0] == 200
    given_up = {"run": "r", "attempt": 1, "outcome": "aborted", "side_effects": "none"}
    assert (await call("POST", "/api/v1/calls/c/result", given_up))[0] == 404
    assert (await ToolCall.objects.aget()).as_card().running
    assert (await call("POST", "/api/v1/calls/c/result", given_up | {"attempt": 2}))[0] == 200
    assert (await ToolCall.objects.aget()).as_card().cause == "aborted"
