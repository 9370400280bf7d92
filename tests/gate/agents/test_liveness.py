"""Leases of runs: a request renews them, and writes the run only if that moves the end by enough."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.test import Client

from tests.support.gate_commands import pass_working_time
from tests.support.gated_calls import DECIDE, end_leases, get_approval
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.clocks import clock
from toolcards.gate.agents import liveness
from toolcards.gate.agents.liveness import LEASE_SLACK, POLL_LEASE, REQUEST_LEASE
from toolcards.gate.agents.run_commands import FetchDecision
from toolcards.gate.writer import group_commit
from toolcards.models import Approval, Run, ToolCall
from toolcards.models.write_guard import allow_log_writes
from toolcards.transports.background import connections

pytestmark = pytest.mark.django_db(transaction=True)


def ask(source: Any, policy: Any) -> str:
    policy({"default": "ask"})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={"command": "ls"}))
    return Approval.objects.get().id


def poll(source: Any, approval: str) -> Run:
    """Poll once; return the run."""
    group_commit.execute(FetchDecision(source, approval))
    return Run.objects.get()


def set_lease(seconds: float) -> float:
    """Let the stored lease end in so many seconds of working time; return that time."""
    end = clock.working() + seconds
    with allow_log_writes():
        Run.objects.update(alive_until=end)
    return end


def test_a_poll_soon_after_another_request_writes_nothing(
    source: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    approval = ask(source, policy)
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    before = poll(source, approval)  # records that the agent has the approval
    after = poll(source, approval)
    assert (after.alive_until, after.updated_at) == (before.alive_until, before.updated_at)


@pytest.mark.parametrize("share", [LEASE_SLACK * 1.5, 0.5, 1.5])
def test_a_poll_renews_a_lease_that_has_run_for_longer(
    share: float, source: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    approval = ask(source, policy)
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    end = set_lease(REQUEST_LEASE * (1 - share))
    assert float(poll(source, approval).alive_until or 0) == pytest.approx(end + REQUEST_LEASE * share, abs=60)


def test_the_lease_of_an_agent_that_only_polls_is_short_and_renewed_in_time(
    source: Any, policy: Any, an_approver: Any
) -> None:
    approval = ask(source, policy)
    set_lease(REQUEST_LEASE)
    first = float(poll(source, approval).alive_until or 0)
    assert first == pytest.approx(clock.working() + POLL_LEASE, abs=60)
    set_lease(POLL_LEASE / 2)
    assert float(poll(source, approval).alive_until or 0) == pytest.approx(clock.working() + POLL_LEASE, abs=60)


ASK = {"default": "ask"}
QUESTION = {"run": "r", "call_id": "c", "tool": {"name": "bash"}, "args": {"command": "git push"}}


async def become(is_true: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await in_thread(is_true)():
            await asyncio.sleep(0.02)


def states() -> dict[str, str]:
    return {call.call_id: str(call.state) for call in ToolCall.objects.all()}


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


async def test_a_lost_run_takes_its_questions_and_unused_answers_with_it(
    call: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)(ASK)
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
