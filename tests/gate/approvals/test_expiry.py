"""Approvals whose time is over."""

from __future__ import annotations

import time
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from toolcards import gate
from toolcards.models import Approval, ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_has_expired_cannot_be_approved(a_call: Any, an_approver: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    vote = ballot(call, "approve")
    with allow_log_writes():
        Approval.objects.update(expires_at=time.time() - 1)
    with pytest.raises(gate.TooLate):
        gate.vote(an_approver, vote)
    assert gate.sweep() == 1
    card = ToolCall.objects.get().as_card()
    assert (card.state, card.denied_by.kind) == ("output-denied", "timeout")


ASK = {"default": "ask"}
QUESTION = {"run": "r", "call_id": "c", "tool": {"name": "bash"}, "args": {"command": "git push"}}


@pytest.mark.parametrize("way", ["poll", "decide"])
async def test_a_question_whose_time_is_over_reads_as_expired_before_the_sweep(
    way: str, call: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)(ASK)
    _, decision, _ = await call("POST", "/api/v1/calls/decide", QUESTION)
    with allow_log_writes():
        await Approval.objects.aupdate(expires_at=time.time() - 1)
    with pytest.raises(gate.TooLate):
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
    path = f"/api/v1/approvals/{decision['approval']['id']}"
    _, answer, _ = await (call("GET", path) if way == "poll" else call("POST", "/api/v1/calls/decide", QUESTION))
    assert (answer["decision"], answer["reason"]["code"]) == ("deny", "approval_expired")
    assert (await Approval.objects.aget()).state == "expired"


async def test_applying_a_policy_allows_no_question_whose_time_is_over(
    call: Any, policy: Any, an_approver: Any
) -> None:
    await in_thread(policy)(ASK)
    await call("POST", "/api/v1/calls/decide", QUESTION)
    with allow_log_writes():
        await Approval.objects.aupdate(expires_at=time.time() - 1)
    await in_thread(policy)({"default": "allow"})
    await in_thread(gate.reevaluate_waiting)("ann")
    assert (await Approval.objects.aget()).state == "pending"
