"""The kill switch stops every call: also of other runs than one that cannot be read, and those that come later."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.db import connection

from tests.support.gated_calls import ASK, PUSH
from toolcards import gate
from toolcards.gate import emergency
from toolcards.gate.writer import group_commit, run_cache
from toolcards.models import Approval, ToolCall
from toolcards.models.write_guard import allow_event_changes

pytestmark = pytest.mark.django_db(transaction=True)
ANNOUNCED = {"type": "approval.requested", "call_id": "c", "approval_id": "theirs"}


def set_card(call: ToolCall, text: str) -> str:
    """Replace the stored card, as another release would; return the text before."""
    with allow_event_changes(), connection.cursor() as cursor:
        cursor.execute("SELECT card FROM toolcards_toolcall WHERE id = %s", [call.pk])
        before: str = cursor.fetchone()[0]
        cursor.execute("UPDATE toolcards_toolcall SET card = %s WHERE id = %s", [text, call.pk])
    run_cache.clear()
    return before


def list_states() -> dict[str, str]:
    return dict(Approval.objects.values_list("call__call_id", "state"))


def test_a_run_that_cannot_be_read_keeps_no_other_from_being_stopped(a_call: Any) -> None:
    unreadable = a_call("approval-requested", call_id="unreadable", run="run-1")
    a_call("approval-requested", call_id="readable", run="run-2")
    card = set_card(unreadable, "null")
    assert gate.set_kill_switch("ann", True, "drill")["stopped"] == 1
    assert emergency.is_kill_switch_on()
    assert list_states() == {"unreadable": "pending", "readable": "denied"}
    set_card(unreadable, card)  # with the old key again
    gate.sweep()
    assert list_states() == {"unreadable": "denied", "readable": "denied"}


def test_a_run_that_cannot_be_read_keeps_no_other_from_being_reevaluated(a_call: Any, policy: Any) -> None:
    unreadable = a_call("approval-requested", call_id="unreadable", run="run-1")
    a_call("approval-requested", call_id="readable", run="run-2")
    card = set_card(unreadable, "null")
    policy({"rules": [], "default": "deny"})
    counts = gate.reevaluate_waiting("ann")
    set_card(unreadable, card)
    assert (counts["denied"], counts["left"]) == (1, 1)


def test_more_calls_than_one_commit_takes_are_all_stopped(a_call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emergency, "STOPPED_AT_ONCE", 2)
    for number in range(5):
        a_call("approval-requested", call_id=f"c{number}", run=f"run-{number % 3}")
    assert gate.set_kill_switch("ann", True)["stopped"] == 5
    assert set(list_states().values()) == {"denied"}


@pytest.mark.parametrize("how", ["by the sweep", "before the switch is off"])
def test_what_another_process_decided_at_that_moment_is_stopped(how: str, a_call: Any, an_approver: Any) -> None:
    """Its commit began before the switch was on, and ended after the waiting calls were stopped."""
    group_commit.execute(emergency.SetKillSwitch("ann", True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emergency, "is_kill_switch_on", lambda: False)  # as that commit has read it
        a_call("approval-requested")
    assert emergency.is_kill_switch_on() and list_states() == {"call-1": "pending"}
    if how == "by the sweep":
        gate.sweep()
        assert list_states() == {"call-1": "denied"}
    gate.set_kill_switch("ann", False)
    assert list_states() == {"call-1": "denied"}


async def test_what_agents_ask_about_while_it_is_on_is_not_approved_but_denied(
    agent: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    await in_thread(gate.set_kill_switch)("ann", True, "drill")
    async with agent(run="r", mode="observe") as socket:
        await socket.say(PUSH, ANNOUNCED)
        await socket.acked(2)
        vote = ballot(await ToolCall.objects.aget(), "approve")
        with pytest.raises(gate.NotAllowed) as refusal:
            await in_thread(gate.vote)(an_approver, vote)
        assert refusal.value.code == "kill_switch"
        await in_thread(gate.sweep)()
        decision = await socket.hear("decision")
        assert (decision["decision"], decision["by"]["kind"]) == ("deny", "kill_switch")
        assert decision["reply"]["approved"] is False


def test_while_it_is_on_people_can_still_deny(a_call: Any, an_approver: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    group_commit.execute(emergency.SetKillSwitch("ann", True))
    assert gate.vote(an_approver, ballot(call, "deny")).state == "output-denied"
