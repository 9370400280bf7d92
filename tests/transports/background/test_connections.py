"""An agent that is away longer than the grace time: what people are asked, or approved, keeps its time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from tests.support.agents import wait_for_senders
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.gate.writer import group_commit
from toolcards.models import Approval, Run, ToolCall
from toolcards.models.write_guard import allow_log_writes
from toolcards.transports.background import connections

pytestmark = pytest.mark.django_db(transaction=True)
ASK = {"default": "ask"}
QUESTION = {"run": "r", "call_id": "c", "tool": {"name": "bash"}, "args": {"command": "git push"}}
READY = {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "git push"}}


def lose() -> None:
    """Let the grace time of every run pass."""
    group_commit.WRITER.drain()
    with allow_log_writes():
        Run.objects.filter(alive_until__isnull=False).update(alive_until=time.time() - 1)
    gate.sweep()


async def until(is_true: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await in_thread(is_true)():
            await asyncio.sleep(0.02)


def state(call_id: str = "c") -> tuple[str, str | None]:
    card = ToolCall.objects.get(call_id=call_id).as_card()
    return str(card.state), card.cause


def status() -> str:
    return str(Run.objects.get().status)


async def lose_after_grace() -> None:
    """Lose the run, once its last socket has left it the grace time."""
    await until(lambda: not connections.connections)
    await in_thread(lose)()


async def ask_over_a_socket(agent: Any) -> None:
    """Ask over a socket that goes away, and lose the run."""
    other = {"type": "tool.input.started", "call_id": "other", "tool": "bash"}
    async with agent(run="r") as socket:
        await socket.say(other, READY)
        await socket.acked(2)
        await wait_for_senders()
    await lose_after_grace()


async def leave(agent: Any) -> None:
    """Be the run's socket for a moment, then lose the run."""
    async with agent(run="r") as socket:
        await socket.say({"type": "text.delta", "text": "hi"})
        await socket.acked(1)
    await lose_after_grace()


async def test_an_approval_while_the_agent_is_away_is_delivered_when_it_returns(
    agent: Any, policy: Any, an_approver: Any, ballot: Any, limits: Any
) -> None:
    limits(grace=50)
    await in_thread(policy)(ASK)
    await ask_over_a_socket(agent)
    assert await in_thread(state)() == ("approval-requested", None)
    assert await in_thread(lambda: state("other"))() == ("output-error", "truncated")
    run = await Run.objects.aget()
    assert run.status == "waiting" and "agent is away" in run.reason
    await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(call_id="c"), "approve")))()
    async with agent(run="r") as socket:
        await socket.say(READY)
        decision = await socket.hear("decision")
        assert (decision["decision"], decision["by"]["kind"]) == ("allow", "human")
        await socket.say({"type": "tool.output.available", "call_id": "c", "output": "pushed"})
        await socket.acked(2)
        run = await Run.objects.aget()
        assert (run.status, run.reason) == ("running", "")
    assert await in_thread(state)() == ("output-available", None)


async def test_an_approval_before_the_agent_was_lost_is_kept_too(
    agent: Any, call: Any, policy: Any, an_approver: Any, ballot: Any, limits: Any
) -> None:
    limits(grace=50)
    await in_thread(policy)(ASK)
    _, decision, _ = await call("POST", "/api/v1/calls/decide", QUESTION)
    await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
    await leave(agent)
    _, body, _ = await call("GET", decision["approval"]["poll"])
    assert body["decision"] == "allow"
    proof = {"call_id": "c", "args_sha256": body["args_sha256"]}
    code, claim, _ = await call("POST", f"/api/v1/permits/{body['permit']['id']}/claim", proof)
    assert (code, claim["args"]) == (200, QUESTION["args"])
    assert await in_thread(status)() == "running"
    await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok", "output": "pushed"})
    assert await in_thread(state)() == ("output-available", None)


@pytest.mark.parametrize("is_answered", [False, True])
async def test_nothing_waits_for_an_agent_that_never_comes_back(
    is_answered: bool, agent: Any, call: Any, policy: Any, an_approver: Any, ballot: Any, limits: Any
) -> None:
    limits(grace=50)
    await in_thread(policy)(ASK)
    _, decision, _ = await call("POST", "/api/v1/calls/decide", QUESTION)
    if is_answered:
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
    await leave(agent)
    assert (await Run.objects.aget()).status == ("truncated" if is_answered else "waiting")
    late = time.time() - 1
    rows = Approval.objects.filter(id=decision["approval"]["id"])
    with allow_log_writes():
        await in_thread(rows.update)(expires_at=late, **({"permit_expires_at": late} if is_answered else {}))
    await in_thread(gate.sweep)()
    assert (await in_thread(state)())[0] in {"output-denied", "output-error"}
    assert await in_thread(status)() == "truncated"
    _, body, _ = await call("GET", decision["approval"]["poll"])
    assert body["decision"] == "deny" and body["permit"] is None


async def test_an_agent_that_asks_again_continues_its_run(
    agent: Any, call: Any, policy: Any, an_approver: Any, limits: Any
) -> None:
    limits(grace=50)
    await in_thread(policy)(ASK)
    await call("POST", "/api/v1/calls/decide", QUESTION)
    await leave(agent)
    assert await in_thread(status)() == "waiting" and (await Run.objects.aget()).reason
    await call("POST", "/api/v1/calls/decide", QUESTION)
    assert await in_thread(status)() == "waiting" and not (await Run.objects.aget()).reason
    await call("POST", "/api/v1/runs/r/end", {"outcome": "aborted"})
    assert (await in_thread(status)(), (await in_thread(state)())[0]) == ("aborted", "output-error")


async def test_a_post_leaves_an_open_socket_its_lease_and_a_lone_post_sets_its_own(call: Any, agent: Any) -> None:
    hook = {"session_id": "r", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t1"}
    body = hook | {"tool_input": {"command": "ls"}}
    path = "/api/v1/ingest?protocol=claude-code&run=r"

    def lease() -> float:
        return float(Run.objects.get().alive_until or 0) - time.time()

    async with agent(run="r") as socket:
        await socket.say(READY)
        await until(lambda: Run.objects.filter(name="r", seq__gt=0).exists())
        assert (await call("POST", path, body))[0] == 200
        assert await in_thread(lease)() < gate.REQUEST_LEASE / 2
    await until(lambda: not connections.connections)
    assert (await call("POST", path, body | {"tool_use_id": "t2"}))[0] == 200
    assert await in_thread(lease)() > gate.REQUEST_LEASE / 2
    assert not connections._posts
