"""Approvals whose time is over."""

from __future__ import annotations

import time
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from dashboard.cards import labels
from toolcards import gate
from toolcards.core.calls.call_json import compute_durations
from toolcards.gate.agents.run_commands import WithdrawApproval
from toolcards.gate.writer import group_commit
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


def test_an_approved_call_that_the_agent_never_starts_did_not_run(a_call: Any, an_approver: Any, ballot: Any) -> None:
    gate.vote(an_approver, ballot(a_call("approval-requested"), "approve"))
    with allow_log_writes():
        Approval.objects.update(permit_expires_at=1.0)
    assert gate.sweep() == 1
    card = ToolCall.objects.get().as_card()
    assert (card.state, card.cause, card.approval.by.kind) == ("output-error", "not-executed", "human")
    assert compute_durations(card)["running"] is None
    assert labels.describe_soft_end(card) == labels.UNUSED_SENTENCE


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_withdrawn_question_says_so_and_not_that_the_run_was_stopped(
    a_call: Any, an_approver: Any, ballot: Any, source: Any, is_answered: bool
) -> None:
    call = a_call("approval-requested")
    if is_answered:
        gate.vote(an_approver, ballot(call, "approve"))
    group_commit.execute(WithdrawApproval(source, Approval.objects.get().id))
    card = ToolCall.objects.get().as_card()
    assert labels.describe_soft_end(card) == labels.WITHDRAWN_SENTENCES[is_answered]
