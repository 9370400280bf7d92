"""The end of a run by an agent's request."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from tests.support.gate_commands import pass_working_time
from tests.support.server import PATIENCE, Server, until
from toolcards import gate
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame
from toolcards.gate.agents import run_commands
from toolcards.gate.approvals.delivery import ClaimDelivery
from toolcards.gate.writer import group_commit
from toolcards.models import Run, Source, ToolCall
from toolcards.transports.api.auth import Caller
from toolcards.transports.background import connections

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "Zx9vK3qLm7pR"


def test_the_reason_a_run_ended_for_is_kept_without_secrets(a_run: Any, source: Source) -> None:
    run = a_run("run-1")
    group_commit.execute(run_commands.EndRun(source, "run-1", "error", f"failed: PASSWORD={SECRET}"))
    run.refresh_from_db()
    assert run.reason.startswith("failed: PASSWORD=‹secret ")


@pytest.mark.parametrize("handover", [0, 3600])
def test_an_approval_is_not_found_by_its_input_before_it_is_handed_over(
    handover: int, source: Source, policy: Any, an_approver: Any, ballot: Any, limits: Any
) -> None:
    limits(handover_seconds=handover)
    policy({"default": "ask"})
    answer = gate.decide(source, gate.DecisionRequest("r", "c", "bash", {"command": "ls"}))

    def find() -> Any:
        decision = group_commit.execute(run_commands.FindDecision(source, "r", "bash", {"command": "ls"}))
        return decision and decision["decision"]

    assert find() == "ask"
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    assert find() is None
    group_commit.execute(ClaimDelivery(answer["approval"]["id"]))
    assert find() == "allow"


QUESTION = {"run": "r", "call_id": "c", "tool": {"name": "bash"}, "args": {"command": "git push"}}


def states() -> dict[str, str]:
    return {call.call_id: str(call.state) for call in ToolCall.objects.all()}


def stream(source: Source, **options: Any) -> tuple[gate.Stream, connections.AgentConnection]:
    """Begin a body of the run."""
    open_stream = gate.open_stream(source, "r", protocol="native", **options)
    connection = connections.AgentConnection(Caller(source, 0))
    connection.sends(open_stream)
    return open_stream, connection


async def send(open_stream: gate.Stream, call_id: str) -> None:
    open_stream.push([f.InputReady(call_id, "bash", {"command": "ls"}, True)])
    await open_stream.wait_until_committed()


async def end(open_stream: gate.Stream, connection: connections.AgentConnection) -> None:
    open_stream.is_shared = not connection.is_alone
    open_stream.push([gate.build_end_of_stream()])
    await open_stream.wait_until_committed()
    connection.close(lease=float("inf"))
    await open_stream.wait_until_committed()


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
    (lost_stream, lost_connection), (again, connection) = stream(source), stream(source)
    for open_stream in (lost_stream, again):
        open_stream.push([f.InputReady("c", "bash", {"command": "ls"}, True)], 1)
        open_stream.push(SkippedFrame("unknown"), 2)
        await open_stream.wait_until_committed()
    lost_connection.close()
    await end(again, connection)
    assert (await in_thread(states)(), (await Run.objects.aget()).status) == ({"c": "output-error"}, "truncated")


async def test_what_a_lost_body_left_open_ends_when_no_body_continues_it(source: Source, limits: Any) -> None:
    limits(grace=50)
    (lost_stream, lost_connection), (other, connection) = stream(source), stream(source)
    await send(lost_stream, "lost")
    lost_connection.close()
    await end(other, connection)
    assert (await in_thread(states)())["lost"] == "input-available"
    assert 0 < (await Run.objects.aget()).alive_until - clock.working() <= 50
    await in_thread(pass_working_time)(51)
    assert ((await in_thread(states)())["lost"], (await Run.objects.aget()).status) == ("output-error", "truncated")


@pytest.mark.slow
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
