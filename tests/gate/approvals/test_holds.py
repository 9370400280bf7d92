"""Questions of hooks end with the server process that held their requests; others keep their time limits."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db.models import F

from toolcards import gate
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.gate.approvals import holds
from toolcards.gate.writer import group_commit
from toolcards.models import Approval, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("an_approver")]


def ask(source: Source, policy: Any, channel: str) -> Approval:
    """Have an agent ask on that channel, over a connection that is gone afterward."""

    async def send() -> None:
        stream = gate.Stream(source, "r", protocol="native", mode="gate", channel=channel)
        stream.push([f.InputReady("c", "bash", {"command": "git push"}, True)])
        await stream.wait_until_committed()

    policy({"default": "ask"})
    async_to_sync(send)()
    return Approval.objects.get()


def let_pass(seconds: float) -> None:
    with allow_log_writes():
        Approval.objects.update(held_until=F("held_until") - seconds)


def test_the_question_of_a_hook_ends_once_its_hold_is_not_renewed(source: Source, policy: Any) -> None:
    row = ask(source, policy, "hook")
    assert 0 < row.held_until - clock.working() <= holds.HOLD_LEASE and gate.sweep() == 0
    let_pass(holds.HOLD_LEASE - 5)
    assert gate.sweep() == 0
    group_commit.execute(holds.RenewHolds([row.id]))
    let_pass(holds.HOLD_LEASE - 5)
    assert gate.sweep() == 0
    let_pass(5)
    assert (gate.sweep(), gate.sweep()) == (1, 0)
    card = ToolCall.objects.get().as_card()
    assert (Approval.objects.get().state, card.cause, card.approval.state) == ("cancelled", "aborted", "cancelled")
    assert card.error.message == holds.LOST_REASON and not card.waiting


@pytest.mark.parametrize("channel", ["socket", "poll"])
def test_other_questions_need_no_hold(source: Source, policy: Any, channel: str) -> None:
    assert ask(source, policy, channel).held_until == 0
    assert gate.sweep() == 0


def test_an_answered_question_is_not_withdrawn(source: Source, policy: Any, an_approver: Any, ballot: Any) -> None:
    row = ask(source, policy, "hook")
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    let_pass(2 * holds.HOLD_LEASE)
    gate.sweep()
    group_commit.execute(holds.EndHold(row.id))
    group_commit.execute(holds.RenewHolds([row.id]))
    assert Approval.objects.get().state == "approved" and Approval.objects.get().held_until < clock.working()
