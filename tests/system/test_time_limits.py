"""Time limits of approvals: expiry of unused answers, and the presence of agents."""

# ruff: noqa: E501 - tables read better in long lines; fixtures come from next door
from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from tests.support.agents import wait_for_senders
from tests.support.gated_calls import ASK, PUSH, get_approval
from tests.support.server import PATIENCE
from toolcards import doorbell, feed, gate
from toolcards.audit.rows import AuditRow
from toolcards.core.calls.facts import RunStarted
from toolcards.models import AgentKey, Approval, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes
from toolcards.transports.api.auth import Caller
from toolcards.transports.background import connections

pytestmark = pytest.mark.django_db(transaction=True)


# ---------------------------------------------------------------- an approval that is not fetched


async def _approved_while_away(agent: Any, policy: Any, person: Any, ballot: Any) -> None:
    await in_thread(policy)({"rules": [ASK | {"ask": {"use_ttl": "1m"}}]})
    async with agent(run="r", mode="gate") as socket:
        await socket.say(PUSH)
        assert (await socket.hear("decision"))["decision"] == "ask"
    await in_thread(lambda: gate.vote(person, ballot(ToolCall.objects.get(), "approve")))()
    seconds_left = (await Approval.objects.aget()).permit_expires_at - time.time()
    assert 0 < seconds_left <= 60


@pytest.mark.parametrize("swept", [True, False])
async def test_an_approval_that_no_socket_fetches_in_time_expires(
    agent: Any, policy: Any, an_approver: Any, ballot: Any, swept: bool
) -> None:
    await _approved_while_away(agent, policy, an_approver, ballot)
    with allow_log_writes():
        await Approval.objects.aupdate(permit_expires_at=time.time() - 1)
    if swept:
        await in_thread(gate.sweep)()
        assert (await Approval.objects.aget()).state == "expired"
    async with agent(run="r", mode="gate") as socket:
        decision = await socket.hear("decision")
        assert (decision["decision"], decision["by"]["kind"], decision["approval"]["state"]) == (
            "deny",
            "timeout",
            "expired",
        )
        assert decision["reason"] == {"code": "permit_expired", "text": "Approved, but not started in time. Request the call again.", "suggest": ""}  # fmt: skip
        await socket.say(PUSH)
        anew = await socket.hear("decision")
        assert anew["decision"] == "ask" and anew["approval"]["id"] != decision["approval"]["id"]
    assert await AuditRow.objects.filter(act="approval.expired", actor_kind="timeout").acount() == 1


async def test_an_approval_is_delivered_once_to_an_agent_that_returns_in_time(
    agent: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await _approved_while_away(agent, policy, an_approver, ballot)
    async with agent(run="r", mode="gate") as socket:
        assert (await socket.hear("decision"))["decision"] == "allow"
    with allow_log_writes():
        await Approval.objects.aupdate(permit_expires_at=time.time() - 1)  # it was used in time: this clock is over
    await in_thread(gate.sweep)()
    assert (await Approval.objects.aget()).state == "claimed"
    async with agent(run="r", mode="gate") as socket:
        await wait_for_senders()
        assert await socket.silent(0.7)


async def test_a_permit_that_was_not_claimed_in_time_says_so(
    call: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    path, proof, pk = await get_approval(call, an_approver, ballot)
    with allow_log_writes():
        await Approval.objects.aupdate(permit_expires_at=time.time() - 1)
    status, body, _ = await call("POST", path, proof)
    assert (status, body["error"]["code"]) == (410, "expired")
    await in_thread(gate.sweep)()
    _, body, _ = await call("GET", f"/api/v1/approvals/{pk}")
    assert (body["decision"], body["by"]["kind"], body["reason"]["code"]) == ("deny", "timeout", "permit_expired")
    assert (await call("POST", path, proof))[1]["error"]["code"] == "expired"


async def test_what_a_gating_socket_asked_is_not_told_to_one_that_watches(
    agent: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    async with agent(run="r", mode="observe") as watching, agent(run="r", mode="gate") as gating:
        await watching.say({"type": "text.delta", "text": "hello"})
        await watching.acked(1)
        await gating.say(PUSH)
        assert (await gating.hear("decision"))["decision"] == "ask"
        await gate_closed(gating)
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
        row = await Approval.objects.aget()
        assert (await feed.list_undelivered(row.run_id, "watch"), await feed.list_undelivered(row.run_id)) == (
            [],
            [row.pk],
        )
        async with agent(run="r", mode="gate") as back:
            assert (await back.hear("decision"))["decision"] == "allow"


@pytest.mark.slow
async def test_without_a_ring_every_socket_tells_its_answer_after_a_heartbeat(
    agent: Any, policy: Any, an_approver: Any, ballot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    async with contextlib.AsyncExitStack() as open_ones:
        sockets = [await open_ones.enter_async_context(agent(run=f"r{turn}", mode="gate")) for turn in range(3)]
        for socket in sockets:
            await socket.say(PUSH)
            assert (await socket.hear("decision"))["decision"] == "ask"
        monkeypatch.setattr(doorbell, "_ring_locally", lambda runs: None)
        calls = await in_thread(lambda: list(ToolCall.objects.order_by("-id")))()
        for call in calls[:2]:  # the last socket's first; the first one's person has not answered yet
            await in_thread(lambda call=call: gate.vote(an_approver, ballot(call, "approve")))()
        for socket in sockets[1:]:
            assert (await socket.hear("decision"))["decision"] == "allow"
        await in_thread(lambda: gate.vote(an_approver, ballot(calls[2], "deny")))()
        assert (await sockets[0].hear("decision"))["decision"] == "deny"


@pytest.mark.parametrize("grace", [0.4, 2, 30])
async def test_a_connection_renews_its_runs_lease_before_one_elsewhere_could_let_it_go(
    key: AgentKey, source: Source, limits: Any, grace: float
) -> None:
    limits(grace=grace)
    ours, theirs = (gate.open_stream(source, "r", protocol="native") for _ in range(2))
    connection = connections.AgentConnection(Caller(source, key.pk))
    connection.sends(ours)
    ours.push([RunStarted()])  # without a frame, there is no run
    await ours.wait_until_committed()
    start = time.monotonic()
    theirs.renew_lease(grace)  # the last connection of another process has closed
    await theirs.wait_until_committed()
    assert (await Run.objects.aget()).alive_until - time.time() <= grace
    connection.renew(start + 0.75 * grace)
    await ours.wait_until_committed()
    assert (await Run.objects.aget()).alive_until - time.time() > grace
    connection.close()
    await ours.wait_until_committed()


async def gate_closed(socket: Any) -> None:
    await socket.wire.disconnect(timeout=PATIENCE)
