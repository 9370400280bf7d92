"""The kill switch stops every call, also of other runs than one that cannot be read; break-glass lets them run."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.core.management import call_command
from django.db import connection
from django.test import Client

from tests.support.gated_calls import ASK, DENY, PUSH
from toolcards import gate
from toolcards.clocks import clock
from toolcards.gate import emergency
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import Approval, BreakGlass, Source, ToolCall
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


async def test_the_kill_switch_answers_sockets_at_once(agent: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    async with agent(run="r", mode="gate") as socket:
        await socket.say({"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {}})
        assert (await socket.hear("decision"))["decision"] == "ask"
        await in_thread(gate.set_kill_switch)("ann", True, "drill")
        decision = await socket.hear("decision")
        assert (decision["decision"], decision["by"]["kind"]) == ("deny", "kill_switch")


def test_the_glass_is_broken_with_a_reason_a_fresh_sign_in_and_for_a_while(
    source: Source, policy: Any, a_person: Any, client: Client
) -> None:
    policy({"rules": [ASK, DENY | {"match": {"tool": ["rm"]}}]})
    admin = a_person("admin", "root")
    client.force_login(admin)
    address = "/api/v1/breakglass"
    minutes: list[Any] = [481, "soon", -1]
    reasoned = {"on": True, "reason": "x"}
    wrongs = [{"on": True}, {"on": True, "reason": " "}, *(reasoned | {"minutes": each} for each in minutes), {"on": 1}]
    for wrong in wrongs:
        assert client.post(address, wrong, content_type="application/json").status_code == 422, wrong
    admin.refresh_from_db()
    type(admin).objects.update(last_login=admin.last_login.replace(year=2020))
    response = client.post(address, {"on": True, "reason": "x"}, content_type="application/json")
    assert (response.status_code, response.json()["error"]["code"]) == (401, "reauth")
    call_command("breakglass", "on", "--reason", "the pager", "--minutes", "5", stdout=io.StringIO())
    decision = gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert (decision["decision"], decision["by"]["kind"]) == ("allow", "break_glass")
    assert gate.decide(source, gate.DecisionRequest(run="r", call_id="d", tool="rm", args={}))["decision"] == "deny"
    page = client.get("/settings/breakglass/").content.decode()
    assert "the pager" in page and f"/calls/{ToolCall.objects.get(call_id='c').public_id}/" in page
    assert "data-breakglass" in client.get("/").content.decode()
    BreakGlass.objects.update(until=time.time() - 1)
    assert gate.decide(source, gate.DecisionRequest(run="r", call_id="e", tool="bash", args={}))["decision"] == "ask"


MINUTES: list[bytes] = [
    b"0", b"-0", b"-5", b"1e308", b"1e999", b"NaN", b"Infinity",
    b'"nan"', b'"inf"', b'"60abc"', b'"5"', b'""', b"true", b"false",
    b"null", b"[]", b"{}", b"481", b"480.0001", b"1" + b"0" * 400,
]  # fmt: skip


@pytest.mark.parametrize("minutes", MINUTES, ids=lambda text: text[:12].decode())
def test_glass_is_broken_for_a_number_of_minutes_or_not_at_all(minutes: bytes, a_person: Any, client: Client) -> None:
    client.force_login(a_person("admin"))
    body = b'{"on": true, "reason": "x", "minutes": ' + minutes + b"}"
    answer = client.post("/api/v1/breakglass", body, content_type="application/json")
    assert answer.status_code in {400, 422} and answer.json()["error"]["message"]
    assert client.get("/api/v1/breakglass").json() == {"on": False}
    text = minutes.decode().strip('"')
    if text:  # an empty field of the form is the usual hour
        page = client.post("/settings/breakglass/", {"to": "on", "reason": "x", "minutes": text})
        assert (page.status_code, client.get("/api/v1/breakglass").json()["on"]) == (
            (302, True) if text == "5" else (422, False)
        )


def test_a_clock_that_is_set_back_prolongs_no_break_glass(monkeypatch: pytest.MonkeyPatch) -> None:
    elapsed, wall = clock.elapsed, clock.wall
    gate.break_glass("ann", "an outage", 60)
    for seconds, ahead, is_active in ((0, 0, True), (0, -7_200, True), (3_500, -7_200, True), (3_700, -7_200, False)):
        monkeypatch.setattr(clock, "elapsed", lambda seconds=seconds: elapsed() + seconds)
        monkeypatch.setattr(clock, "wall", lambda seconds=seconds, ahead=ahead: wall() + seconds + ahead)
        assert (emergency.get_active_break_glass(clock.wall()) is not None) is is_active, (seconds, ahead)
