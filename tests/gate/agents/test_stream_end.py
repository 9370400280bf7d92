"""A stream's end ends what the stream began: not what was asked elsewhere, and not what another stream began."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.test import Client

from tests.support.server import PATIENCE, Server, until
from toolcards import gate
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.runs.skipped_frames import SkippedFrame
from toolcards.gate.agents import liveness
from toolcards.gate.writer import group_commit
from toolcards.models import Approval, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes
from toolcards.transports.api.auth import Caller
from toolcards.transports.background import connections

pytestmark = pytest.mark.django_db(transaction=True)
ASK = {"default": "ask"}
QUESTION = {"run": "r", "call_id": "c", "tool": {"name": "bash"}, "args": {"command": "git push"}}


async def become(is_true: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await in_thread(is_true)():
            await asyncio.sleep(0.02)


def pass_working_time(seconds: float) -> None:
    """Let every lease and limit of working time come nearer, as if servers had worked for so long."""
    group_commit.WRITER.drain()
    for run in Run.objects.filter(alive_until__isnull=False):
        with allow_log_writes():
            Run.objects.filter(pk=run.pk).update(alive_until=run.alive_until - seconds)
    gate.sweep()


def states() -> dict[str, str]:
    return {call.call_id: str(call.state) for call in ToolCall.objects.all()}


def stream(source: Source, **options: Any) -> tuple[gate.Stream, connections.AgentConnection]:
    """Begin a body of the run."""
    opened = gate.open_stream(source, "r", protocol="native", **options)
    connection = connections.AgentConnection(Caller(source, 0))
    connection.sends(opened)
    return opened, connection


async def send(opened: gate.Stream, call_id: str) -> None:
    opened.push([f.InputReady(call_id, "bash", {"command": "ls"}, True)])
    await opened.wait_until_committed()


async def end(opened: gate.Stream, connection: connections.AgentConnection) -> None:
    opened.is_shared = not connection.is_alone
    opened.push([gate.build_end_of_stream()])
    await opened.wait_until_committed()
    connection.close(lease=float("inf"))
    await opened.wait_until_committed()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["this-process", "another-process"])
async def test_the_end_of_a_body_leaves_the_calls_of_another_open_one(source: Source, elsewhere: bool) -> None:
    (ours, our), (theirs, their) = stream(source), stream(source)
    await send(theirs, "theirs")
    await send(ours, "ours")
    if elsewhere:
        connections._senders.clear()  # the other body is sent to another process
        connections._senders[source.pk, "r"] = 1
    await end(ours, our)
    assert await in_thread(states)() == {"ours": "output-error", "theirs": "input-available"}
    assert (await Run.objects.aget()).status == "running"
    connections._senders[source.pk, "r"] = 1
    await end(theirs, their)
    assert (await Run.objects.aget()).status == "truncated"
    assert (await in_thread(states)())["theirs"] == "output-error"


async def test_a_body_that_is_sent_again_ends_what_its_first_try_began(source: Source) -> None:
    (lost, gone), (again, connection) = stream(source), stream(source)
    for opened in (lost, again):
        opened.push([f.InputReady("c", "bash", {"command": "ls"}, True)], 1)
        opened.push(SkippedFrame("unknown"), 2)
        await opened.wait_until_committed()
    gone.close()
    await end(again, connection)
    assert (await in_thread(states)(), (await Run.objects.aget()).status) == ({"c": "output-error"}, "truncated")


async def test_what_a_lost_body_left_open_ends_when_no_body_continues_it(source: Source, limits: Any) -> None:
    limits(grace=50)
    (lost, gone), (other, connection) = stream(source), stream(source)
    await send(lost, "lost")
    gone.close()
    await end(other, connection)
    assert (await in_thread(states)())["lost"] == "input-available"
    assert 0 < (await Run.objects.aget()).alive_until - clock.working() <= 50
    await in_thread(pass_working_time)(51)
    assert ((await in_thread(states)())["lost"], (await Run.objects.aget()).status) == ("output-error", "truncated")


async def test_a_lost_connection_ends_no_call_that_its_agent_runs_with_a_permit(
    agent: Any, call: Any, policy: Any, limits: Any
) -> None:
    limits(grace=50)
    await in_thread(policy)({"default": "allow"})
    _, decision, _ = await call("POST", "/api/v1/calls/decide", QUESTION)
    proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    assert (await call("POST", f"/api/v1/permits/{decision['permit']['id']}/claim", proof))[0] == 200
    async with agent(run="r", mode="observe") as socket:
        await socket.say({"type": "text.delta", "text": "hi"})
        await socket.acked(1)
    await become(lambda: not connections.connections)
    await in_thread(pass_working_time)(300)
    assert await in_thread(states)() == {"c": "input-available"}
    _, completed, _ = await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok", "output": 1})
    assert completed["state"] == "output-available"
    await in_thread(pass_working_time)(liveness.REQUEST_LEASE)
    assert (await Run.objects.aget()).status == "truncated"  # a run of `decide` alone ends by silence


async def test_an_agent_that_polls_is_alive_and_one_that_does_not_is_drawn_as_away(
    agent: Any, call: Any, policy: Any, an_approver: Any, ballot: Any, client: Client, limits: Any
) -> None:
    limits(grace=1)
    await in_thread(policy)(ASK)
    _, decision, _ = await call("POST", "/api/v1/calls/decide", QUESTION)
    async with agent(run="r", mode="observe") as socket:
        await socket.say({"type": "text.delta", "text": "hi"})
        await socket.acked(1)
    await become(lambda: not connections.connections)
    await in_thread(client.force_login)(an_approver)
    page = in_thread(lambda path: client.get(path).content.decode(), thread_sensitive=True)
    for _ in range(3):
        await in_thread(pass_working_time)(liveness.POLL_LEASE - 10)
        await call("GET", f"/api/v1/approvals/{decision['approval']['id']}")
        assert "agent is away" not in await page("/approvals/")
    before = await in_thread(lambda: ToolCall.objects.get().as_card())()
    await in_thread(pass_working_time)(liveness.POLL_LEASE + 1)
    card = await in_thread(lambda: ToolCall.objects.get().as_card())()
    assert card.waiting and (card.rev, card.seq > before.seq) == (before.rev, True)
    assert "The agent is away." in await page("/approvals/")
    assert "The agent is away." in await page(f"/calls/{(await ToolCall.objects.aget()).public_id}/")
    # A vote for what was shown before counts, and the answer is there when the agent is back.
    await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
    _, approval, _ = await call("GET", f"/api/v1/approvals/{decision['approval']['id']}")
    assert approval["decision"] == "allow" and approval["permit"]
    assert "agent is away" not in await page(f"/calls/{(await ToolCall.objects.aget()).public_id}/")
    assert not (await Run.objects.aget()).reason


async def test_a_run_of_decide_alone_outlasts_silence_while_its_question_waits(
    call: Any, policy: Any, an_approver: Any, limits: Any
) -> None:
    limits(grace=1)
    await in_thread(policy)(ASK)
    await call("POST", "/api/v1/calls/decide", QUESTION)
    await in_thread(pass_working_time)(2 * liveness.REQUEST_LEASE)
    assert ((await Run.objects.aget()).status, await in_thread(states)()) == ("waiting", {"c": "approval-requested"})
    with allow_log_writes():
        await Approval.objects.aupdate(expires_at=time.time() - 1)
    await in_thread(gate.sweep)()
    assert (await Run.objects.aget()).status == "truncated"


@pytest.mark.parametrize("is_running", [False, True])
async def test_an_agent_of_decide_alone_that_stops_polling_is_away_unless_a_call_runs(
    call: Any, policy: Any, an_approver: Any, is_running: bool
) -> None:
    rule = {"id": "ls", "effect": "allow", "match": {"tool": ["ls"]}}
    await in_thread(policy)({"v": 1, "default": "ask", "rules": [rule]})
    if is_running:
        await call("POST", "/api/v1/calls/decide", QUESTION | {"call_id": "d", "tool": {"name": "ls"}})
    _, decision, _ = await call("POST", "/api/v1/calls/decide", QUESTION)
    path = f"/api/v1/approvals/{decision['approval']['id']}"
    await call("GET", path)
    await in_thread(pass_working_time)(liveness.POLL_LEASE + 1)
    card = await in_thread(lambda: ToolCall.objects.get(call_id="c").as_card())()
    assert card.waiting and card.approval is not None and card.approval.away is not is_running
    await call("GET", path)  # it is back
    card = await in_thread(lambda: ToolCall.objects.get(call_id="c").as_card())()
    assert card.waiting and card.approval is not None and not card.approval.away


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


def test_after_two_minutes_without_a_server_no_run_is_lost_and_its_questions_stay(tmp_path: Path) -> None:
    question = QUESTION | {"run": "asks"}
    with Server(tmp_path, grace=60, default_effect="ask") as server:
        with server.socket(protocol="native", run="sends", mode="observe") as socket:
            socket.send('{"type": "tool.input.available", "call_id": "o", "tool": "bash", "input": {}}')
            socket.recv(timeout=PATIENCE)
            _, decision, _ = server.request("POST", "/api/v1/calls/decide", question)
        until(lambda: _rows(tmp_path, "SELECT count(*) FROM toolcards_pulse WHERE steady > 0") == [(1,)])
        server.stop()
        _rows(tmp_path, "UPDATE toolcards_pulse SET at = at - 120")  # as if it had stopped two minutes ago
        server.start()
        until(lambda: _rows(tmp_path, "SELECT paused > 100 FROM toolcards_pulse") == [(1,)])
        beat = _rows(tmp_path, "SELECT steady FROM toolcards_pulse")
        until(lambda: _rows(tmp_path, "SELECT steady FROM toolcards_pulse") != beat)  # a sweep has looked at leases
        assert server.get("/api/v1/runs/sends")["status"] == "running"
        _, body, _ = server.request("GET", decision["approval"]["poll"].split("?")[0])
        assert body["decision"] == "ask"


def _rows(folder: Path, statement: str) -> list[Any]:
    with sqlite3.connect(folder / "toolcards.sqlite3", timeout=PATIENCE) as database:
        return database.execute(statement).fetchall()
