"""Requests of agents are one command each, and a decision that plugins look at first is two."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from tests.support.gated_calls import ASK, DENY
from tests.support.server import PATIENCE
from toolcards import gate, hooks
from toolcards.core.calls import facts as f
from toolcards.gate import agent_requests
from toolcards.gate.approvals.expiry import EXPIRED_REASON
from toolcards.gate.decisions.plugins import PluginInquiry
from toolcards.gate.refusals import CallChanged, KeyReuse, NotAllowed, NotFound, TooLate
from toolcards.models import AgentKey, Approval, Run, Source, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
REQUEST = gate.DecisionRequest("r", "c", "bash", {"command": "git push"})


class Guard:
    """A plugin that calls a function about each call."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def before(self, call: dict[str, Any]) -> None:
        self.function()


@pytest.fixture
def consult() -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Give `consult(function)`: a plugin that calls the function before each decision."""

    def register(function: Callable[[], Any]) -> None:
        hooks.register(Guard(function), "guard")

    yield register
    hooks.clear()


# ---------------------------------------------------------------- decisions


def test_a_decision_waits_for_plugins_and_is_then_that_of_policy(policy: Any, source: Source, consult: Any) -> None:
    policy({"rules": [DENY]})
    call_counts: list[int] = []
    consult(lambda: call_counts.append(ToolCall.objects.count()))
    decision = gate.decide(source, REQUEST)
    assert (decision["decision"], decision["reason"]["code"], call_counts) == ("deny", "rule_denied", [1])
    assert gate.decide(source, REQUEST) == decision and call_counts == [1]  # it is decided


async def test_a_caller_that_leaves_while_plugins_look_leaves_a_call_that_can_be_decided(
    policy: Any, source: Source, consult: Any
) -> None:
    await sync_to_async(policy)({"rules": [DENY]})
    is_asked, release = threading.Event(), threading.Event()
    consult(lambda: (is_asked.set(), release.wait(PATIENCE)))
    task = asyncio.create_task(gate.adecide(source, REQUEST))
    assert await asyncio.to_thread(is_asked.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = asyncio.create_task(gate.adecide(source, REQUEST))
    await asyncio.sleep(0)  # it joins the inquiry of the first
    assert await asyncio.to_thread(gate.drain, PATIENCE)
    for _ in range(3):
        await asyncio.sleep(0)
    release.set()
    assert (await asyncio.wait_for(again, PATIENCE))["decision"] == "deny"


async def test_a_call_that_changes_while_plugins_look_is_refused_and_not_decided(
    policy: Any, source: Source, consult: Any
) -> None:
    await sync_to_async(policy)({"default": "allow"})
    stream = gate.open_stream(source, "r", protocol="native", mode="observe")

    def change() -> None:
        if not changes:
            changes.append(1)
            loop.call_soon_threadsafe(stream.push, [f.InputReady("c", "bash", {"command": "git pull"}, True)])
            asyncio.run_coroutine_threadsafe(stream.wait_until_committed(), loop).result(PATIENCE)

    loop, changes = asyncio.get_running_loop(), list[int]()
    consult(change)
    with pytest.raises(KeyReuse, match="requested again with other arguments"):
        await asyncio.wait_for(gate.adecide(source, REQUEST), PATIENCE)
    cards = await sync_to_async(lambda: [call.as_card() for call in ToolCall.objects.all()])()
    assert not any(card.decision and card.input == {"command": "git push"} for card in cards)


def test_an_inquiry_is_no_decision() -> None:
    inquiry = PluginInquiry(1, 1, 1, "bash", "0f", "0f", {})
    with pytest.raises(KeyReuse, match="changed while it was decided"):
        agent_requests._require_decision(inquiry)


# ---------------------------------------------------------------- one command each


async def test_a_permit_is_claimed_once_with_its_arguments(policy: Any, source: Source) -> None:
    await sync_to_async(policy)({"default": "allow"})
    decision = await gate.adecide(source, REQUEST)
    permit, proof = decision["permit"]["id"], {"call_id": "c", "args_sha256": decision["args_sha256"]}
    claim = await gate.aclaim_permit(source, permit, proof, "mine")
    assert claim["args"] == {"command": "git push"} == (await gate.aclaim_permit(source, permit, proof, "mine"))["args"]
    with pytest.raises(TooLate):
        await gate.aclaim_permit(source, permit, proof, "theirs")
    await gate.arecord_result(source, "r", "c", {"outcome": "ok", "output": 1})
    assert (await ToolCall.objects.aget()).state == "output-available"


async def test_a_claim_that_policy_refuses_in_the_meantime_is_refused_and_the_refusal_is_recorded(
    policy: Any, source: Source
) -> None:
    await sync_to_async(policy)({"default": "allow"})
    decision = await gate.adecide(source, REQUEST)
    await sync_to_async(policy)({"rules": [DENY]})
    proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    with pytest.raises(CallChanged) as refusal:
        await gate.aclaim_permit(source, decision["permit"]["id"], proof)
    assert refusal.value.code == "policy_changed"
    assert (await ToolCall.objects.aget()).state == "output-denied"


async def test_an_approval_is_fetched_found_and_withdrawn_by_its_own_agent(
    policy: Any, source: Source, an_approver: Any
) -> None:
    await sync_to_async(policy)({"rules": [ASK]})
    decision = await gate.adecide(source, REQUEST)
    pk = decision["approval"]["id"]
    assert (await gate.aget_decision(source, pk))["decision"] == "ask"
    match = await gate.afind_decision(source, "r", "bash", {"command": "git push"})
    assert match is not None and match["approval"]["id"] == pk
    assert await gate.afind_decision(source, "r", "bash", {"command": "git pull"}) is None
    other = (await sync_to_async(AgentKey.objects.issue)("another agent"))[0].source
    for request in (gate.aget_decision, gate.awithdraw_approval):
        with pytest.raises(NotFound):
            await request(other, pk)
    await gate.awithdraw_approval(source, pk)
    assert (await Approval.objects.aget()).state == "cancelled"
    await gate.aexpire_approval(pk)  # nothing is overdue
    assert (await Approval.objects.aget()).state == "cancelled"


async def test_a_withdrawal_because_of_the_agents_own_time_limit_says_so(
    policy: Any, source: Source, an_approver: Any
) -> None:
    await sync_to_async(policy)({"rules": [ASK]})
    pk = (await gate.adecide(source, REQUEST))["approval"]["id"]
    await gate.awithdraw_approval(source, pk, timed_out=True)
    assert (await ToolCall.objects.aget()).as_card().denied == EXPIRED_REASON


async def test_a_run_beats_and_ends(policy: Any, source: Source) -> None:
    with pytest.raises(NotFound):
        await gate.arecord_heartbeat(source, "r")
    await sync_to_async(policy)({"default": "allow"})
    await gate.adecide(source, REQUEST)
    await gate.arecord_heartbeat(source, "r")
    assert (await Run.objects.aget()).beats
    await gate.aend_run(source, "r", "error", "It broke.")
    row = await Run.objects.aget()
    assert (row.status, row.reason) == ("error", "It broke.")


async def test_a_delivery_is_claimed_and_released_through_the_doors(a_call: Any, source: Source, key: AgentKey) -> None:
    call = await sync_to_async(a_call)("approval-responded")
    pk = (await Approval.objects.aget(call=call)).pk
    decision = await gate.aclaim_delivery(pk, key.pk)
    assert decision is not None and decision["decision"] == "allow"
    assert await gate.aclaim_delivery(pk, key.pk) is None
    await gate.arelease_delivery(pk)
    assert await gate.aclaim_delivery(pk) == decision
    await gate.arelease_delivery(pk)
    await AgentKey.objects.filter(pk=key.pk).aupdate(revoked_at=(await AgentKey.objects.aget(pk=key.pk)).created_at)
    with pytest.raises(NotAllowed):
        await gate.aclaim_delivery(pk, key.pk)


async def test_a_key_is_held_renewed_answered_and_forgotten(source: Source) -> None:
    held_key = await gate.areserve_key(source, "k", {"run": "r"})
    assert isinstance(held_key, gate.HeldKey) and await gate.areserve_key(source, "k", {"run": "r"}) is None
    with pytest.raises(KeyReuse):
        await gate.areserve_key(source, "k", {"run": "another"})
    await gate.arenew_key(held_key)
    await gate.arelease_key(held_key, forget=False)
    again = await gate.areserve_key(source, "k", {"run": "r"})
    assert isinstance(again, gate.HeldKey)
    for request in (gate.arenew_key(held_key), gate.astore_answer(held_key, "{}")):
        with pytest.raises(gate.RequestRefused):
            await request
    await gate.astore_answer(again, '{"ok": 1}')
    answer = await gate.areserve_key(source, "k", {"run": "r"})
    assert isinstance(answer, gate.StoredAnswer) and answer.text == '{"ok": 1}'
    other = await gate.areserve_key(source, "other", {})
    assert isinstance(other, gate.HeldKey)
    await gate.arelease_key(other, forget=True)
    assert isinstance(await gate.areserve_key(source, "other", {"run": "any"}), gate.HeldKey)
