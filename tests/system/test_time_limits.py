"""Time limits of approvals: escalation, expiry of unused answers, and the presence of agents."""

# ruff: noqa: E501 - tables read better in long lines; fixtures come from next door
from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.core import mail as outbox
from django.test import Client

from tests.support.agents import wait_for_senders
from tests.support.gated_calls import ASK, PUSH, get_approval
from tests.support.server import PATIENCE
from toolcards import doorbell, feed, gate
from toolcards.audit.rows import AuditRow
from toolcards.gate.writer import run_cache
from toolcards.models import AgentKey, Approval, Run, Source, ToolCall
from toolcards.models.notifications import Delivery, Webhook
from toolcards.models.write_guard import allow_log_writes
from toolcards.notifications import dispatcher, formats, subscriptions
from toolcards.transports.api.auth import Caller
from toolcards.transports.background import connections

pytestmark = pytest.mark.django_db(transaction=True)


# ---------------------------------------------------------------- no answer for a while

WAITING_TERMS = {"approvers": ["ann"], "decide_ttl": "1h", "escalate": [{"after": "5m", "to": "bob"}]}


def _let_it_wait(seconds: float) -> None:
    with allow_log_writes():
        Approval.objects.filter(state="pending").update(requested_at=time.time() - seconds)


def test_an_approval_without_an_answer_is_escalated_once_and_others_can_vote(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any, client: Client
) -> None:
    bob = a_person("approver", "bob")
    policy({"rules": [ASK | {"ask": WAITING_TERMS}]})
    until = gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))["approval"][
        "decide_by"
    ]
    _let_it_wait(200)
    assert gate.sweep() == 0
    with pytest.raises(gate.NotAllowed):
        gate.vote(bob, ballot(ToolCall.objects.get(), "approve"))
    _let_it_wait(301)
    assert gate.sweep() == 1
    run_cache.clear()  # as after a restart
    assert gate.sweep() == 0
    ask = ToolCall.objects.get().as_card().approval
    assert ask is not None and [to for to, _ in ask.escalated] == ["bob"]
    row = AuditRow.objects.get(act="approval.escalated")
    assert (row.actor_kind, row.approval, row.details["to"]) == ("timeout", ask.id, ["bob"])
    client.force_login(bob)
    assert "data-escalated" in client.get("/approvals/").content.decode()
    listed = client.get("/api/v1/approvals").json()["approvals"][0]
    assert [one["to"] for one in listed["call"]["approval"]["escalated"]] == ["bob"]
    assert listed["expires_at"] == until
    assert gate.vote(bob, ballot(ToolCall.objects.get(), "approve")).state == "approval-responded"
    assert gate.sweep() == 0


def test_subscribers_are_notified_of_an_escalation(
    source: Source, policy: Any, an_approver: Any, a_person: Any
) -> None:
    a_person("approver", "bob")
    Webhook.objects.create(name="w", url="https://example.com/", events='["approval.escalated"]', severity="high")
    subscriptions.clear_cache()
    policy({"rules": [ASK | {"ask": WAITING_TERMS}]})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    _let_it_wait(301)
    gate.sweep()
    gate.sweep()
    delivery = Delivery.objects.get()
    subscriptions.clear_cache()
    assert (delivery.event, delivery.severity, delivery.decoded_payload["escalated_to"]) == (
        "approval.escalated",
        "high",
        ["bob"],
    )
    assert "bob" in formats.build_message(delivery.decoded_payload, delivery.severity).text


def test_a_recipient_gets_the_escalations_to_its_people(
    source: Source, policy: Any, an_approver: Any, a_person: Any, settings: Any
) -> None:
    a_person("approver", "bob")
    for name, to in (("everybody", []), ("leads", ["group:lead"]), ("bobs", ["ann", "bob"])):
        Webhook.objects.create(name=name, format="email", to=f"{name}@example.com", escalated_to=json.dumps(to))
    subscriptions.clear_cache()
    policy({"rules": [ASK | {"ask": WAITING_TERMS}]})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert set(Delivery.objects.values_list("webhook__name", flat=True)) == {"everybody", "leads", "bobs"}
    Delivery.objects.all().delete()
    _let_it_wait(301)
    gate.sweep()
    subscriptions.clear_cache()
    rows = Delivery.objects.filter(event="approval.escalated").values_list("webhook__name", flat=True)
    assert sorted(rows) == ["bobs", "everybody"]
    dispatcher.send_due()
    assert sorted(mail.to[0] for mail in outbox.outbox) == ["bobs@example.com", "everybody@example.com"]
    assert all("bob" in mail.body for mail in outbox.outbox)


def test_an_answered_or_expired_approval_is_not_escalated(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    a_person("approver", "bob")
    policy({"rules": [ASK | {"ask": WAITING_TERMS}]})
    for name in ("c", "d"):
        gate.decide(source, gate.DecisionRequest(run="r", call_id=name, tool="bash", args={}))
    gate.vote(an_approver, ballot(ToolCall.objects.get(call_id="c"), "deny"))
    with allow_log_writes():
        Approval.objects.filter(call__call_id="d").update(expires_at=time.time() - 1)
    with allow_log_writes():
        Approval.objects.update(requested_at=time.time() - 301)
    gate.sweep()
    assert gate.sweep() == 0 and not AuditRow.objects.filter(act="approval.escalated").exists()
    assert set(Approval.objects.values_list("state", flat=True)) == {"denied", "expired"}


def test_an_escalation_of_one_rule_opens_no_other_rules_list(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    bob = a_person("approver", "bob")
    anybodys = ASK | {"id": "loose", "ask": {"escalate": [{"after": "5m", "to": "bob"}]}}
    policy({"rules": [ASK | {"ask": {"approvers": ["ann"]}}, anybodys]})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    _let_it_wait(301)
    assert gate.sweep() == 1
    with pytest.raises(gate.NotAllowed):
        gate.vote(bob, ballot(ToolCall.objects.get(), "approve"))
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))


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
