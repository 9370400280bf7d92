"""Entry points of the gate: one writer, one decision per approval, and a log that explains every change."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.db import DatabaseError, connection, connections
from django.test import Client

from tests.support.gated_calls import ALLOW, ASK, DECIDE, PUSH, QUESTION, end_leases, get_approval
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate import policy_store
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.models import Approval, Event, LogIsFinal, PolicyVersion, Run, Source, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "state",
    [
        "input-streaming", "input-available", "approval-requested", "approval-responded", "output-available",
        "output-error", "output-denied",
    ],
)  # fmt: skip
def test_every_state_is_reached_through_the_gate(state: str, a_call: Any) -> None:
    assert a_call(state).as_card().state == state


def test_the_log_is_never_changed(a_call: Any) -> None:
    a_call("output-available")
    with pytest.raises(LogIsFinal):
        Event.objects.all().update(seq=1)
    with pytest.raises(LogIsFinal):
        Event.objects.all().delete()


def test_one_bad_piece_of_work_does_not_lose_its_neighbours(source: Any, a_run: Any) -> None:
    run = a_run("good")

    class Broken:
        urgent, error = True, None

        def mark_dequeued(self) -> None:
            pass

        def run_keys(self) -> list[Any]:
            return []

        list_approvals = run_keys

        def apply(self, tx: Any) -> None:
            raise RuntimeError("broken")

        def finish(self, error: Exception | None) -> None:
            self.error = error

    broken, good = Broken(), gate.agents.run_commands.RecordHeartbeat(source, "good")
    group_commit.commit([broken, good])
    assert isinstance(broken.error, RuntimeError)
    assert good.error is None
    assert Run.objects.get(pk=run.pk).alive_until


def test_a_text_cut_inside_an_emoji_is_stored_as_it_was(a_run: Any) -> None:
    a_run("r", f.InputStarted("c", "bash"), f.InputDelta("c", '"\ud83d'))
    assert str(ToolCall.objects.get().as_card().text) == '"\ud83d'


class Hesitant(group_commit.Writer):
    """A writer whose thread is held up after each thing that it notes, so that others can look at it half-way."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if threading.current_thread().name == "journal":
            time.sleep(0.05)


class Note(Command):
    """A piece of work that writes nothing."""

    over = False

    def apply(self, tx: Any) -> None:
        pass

    def finish(self, error: Exception | None) -> None:
        connections.close_all()  # of a thread that gets no more work
        self.over = True


def test_who_waits_for_the_journal_waits_for_what_it_has_taken_and_not_begun() -> None:
    writer, work = Hesitant(), Note()
    writer.enqueue(work)
    writer.drain(PATIENCE)
    assert work.over


# ---------------------------------------------------------------- what the wire promises besides
def test_a_policy_that_cannot_be_read_allows_nothing(source: Source, policy: Any) -> None:
    policy("watch")
    for broken in ("{", '{"v": 1, "rules": [{"effect": "perhaps"}]}'):
        PolicyVersion.objects.filter(active=True).update(document=broken)
        policy_store._compiled.clear()
        decision = gate.decide(source, gate.DecisionRequest(run=f"r{len(broken)}", call_id="c", tool="bash", args={}))
        assert (decision["decision"], decision["by"]["kind"], decision["permit"]) == ("deny", "gate_error", None)
    policy_store._compiled.clear()


def test_what_cannot_be_written_into_the_trail_is_not_decided(source: Source, policy: Any) -> None:
    policy("watch")
    before = ToolCall.objects.count(), Approval.objects.count()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE toolcards_auditrow RENAME TO toolcards_elsewhere")
    try:
        with pytest.raises(DatabaseError):
            gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
        assert (ToolCall.objects.count(), Approval.objects.count()) == before
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE toolcards_elsewhere RENAME TO toolcards_auditrow")
    assert gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))["decision"] == "allow"


async def test_an_idempotency_key_belongs_to_one_call(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    decision = QUESTION | {"idempotency_key": "k"}
    _, first, _ = await call("POST", DECIDE, decision)
    assert (await call("POST", DECIDE, decision))[1]["approval"]["id"] == first["approval"]["id"]
    status, answer, _ = await call("POST", DECIDE, decision | {"call_id": "d", "args": {"command": "git push --force"}})
    assert (status, answer["error"]["code"]) == (409, "key_reuse")
    assert (await call("POST", DECIDE, decision | {"run": "another"}))[0] == 200


async def test_what_a_rule_allowed_over_a_socket_has_begun_with_a_right_to(agent: Any, call: Any, policy: Any) -> None:
    await in_thread(policy)({"rules": [ALLOW]})
    async with agent(run="r", mode="gate") as socket:
        await socket.say(PUSH)
        assert (await socket.hear("decision"))["decision"] == "allow"
    assert (await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"}))[0] == 200
    assert not (await ToolCall.objects.aget()).as_card().anomalies


async def test_a_lost_run_takes_its_questions_and_unused_answers_with_it(
    call: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    path, proof, pk = await get_approval(call, an_approver, ballot)
    await call("POST", DECIDE, QUESTION | {"call_id": "d"})
    waits = await ToolCall.objects.aget(call_id="d")
    vote = ballot(waits, "approve")
    await call("POST", "/api/v1/runs/r/beat", {})
    await in_thread(end_leases)()
    await in_thread(gate.sweep)()
    states = {row.call_id: row.state async for row in Approval.objects.all()}
    assert set(states.values()) == {"cancelled"}
    status, body, _ = await call("POST", path, proof)
    assert (status, body["error"]["code"]) == (410, "run_ended")
    with pytest.raises(gate.TooLate) as late:
        await in_thread(lambda: gate.vote(an_approver, vote))()
    assert (late.value.status, late.value.code) == (410, "run_ended")
    _, body, _ = await call("GET", f"/api/v1/approvals/{pk}")
    assert (body["decision"], body["reason"]["code"]) == ("deny", "run_ended")


def test_an_answer_to_another_look_of_the_call_does_not_count(
    source: Source, policy: Any, an_approver: Any, client: Client
) -> None:
    policy({"rules": [ASK]})
    gate.decide(
        source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={"command": "PASSWORD=hunter2hunter2 ls"})
    )
    client.force_login(an_approver)
    page = client.get("/approvals/").content.decode()
    hidden = dict(re.findall(r'name="(rev|args_sha256|view_sha256)" value="([^"]+)"', page))
    listed = client.get("/api/v1/approvals").json()["approvals"][0]["call"]["approval"]
    assert hidden["view_sha256"] == listed["view_sha256"]
    path = f"/approvals/{listed['id']}/vote"
    assert client.post(path, hidden | {"decision": "approve", "view_sha256": "0" * 64}).status_code == 412
    with pytest.raises(gate.CallChanged) as error:
        stale = gate.Ballot(listed["id"], "approve", int(hidden["rev"]), hidden["args_sha256"], "0" * 64)
        gate.vote(an_approver, stale)
    assert error.value.code == "view_stale"
    assert client.post(path, hidden | {"decision": "approve"}).status_code == 303


def test_what_a_person_writes_reaches_the_model_without_control_characters(
    a_call: Any, an_approver: Any, ballot: Any, source: Source
) -> None:
    vote = replace(
        ballot(a_call("approval-requested"), "deny"), reason="no\x1b[2J\x00\x07\r\nnot \x9bthis" + "x" * 3000
    )
    gate.vote(an_approver, vote)
    request = gate.DecisionRequest(run="run-1", call_id="call-1", tool="bash", args={"command": "ls"})
    text = gate.decide(source, request)["reason"]["text"]
    assert text.startswith("A person declined: no[2J\nnot thisxxx") and len(text) < 2_100
