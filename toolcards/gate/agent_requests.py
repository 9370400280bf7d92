"""Requests of agents: decisions, permits, results, heartbeats, delivery, and idempotency keys.

Each function runs one command of the writer. Functions with the prefix `a` are for the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from toolcards.core.calls.card import Card
from toolcards.gate.agents import idempotency, results, run_commands
from toolcards.gate.agents.idempotency import HeldKey, StoredAnswer
from toolcards.gate.approvals import delivery, expiry, holds, permits
from toolcards.gate.decisions import plugins
from toolcards.gate.decisions.decision_request import DecideCall, DecisionRequest
from toolcards.gate.decisions.plugins import PluginInquiry
from toolcards.gate.refusals import KeyReuse, RequestRefused
from toolcards.gate.twins.settlement import SettleTwins
from toolcards.gate.writer import group_commit
from toolcards.models import Source


def decide(source: Source, request: DecisionRequest) -> dict[str, Any]:
    """Decide on a call before it runs; return the decision object."""
    answer = group_commit.execute(DecideCall(source, request))
    if isinstance(answer, PluginInquiry):
        plugin_result = plugins.start_inquiry(answer).result()
        answer = group_commit.execute(DecideCall(source, request, plugin_result))
    decision = _require_decision(answer)
    if twin := _find_twin(decision):
        group_commit.execute(SettleTwins(twin))
        decision = _require_decision(group_commit.execute(DecideCall(source, request)))
    return decision


async def adecide(source: Source, request: DecisionRequest) -> dict[str, Any]:
    """Decide on a call before it runs; return the decision object.

    Plugins are consulted between two commits.
    """
    answer = await group_commit.submit(DecideCall(source, request))
    if isinstance(answer, PluginInquiry):
        plugin_result = await asyncio.shield(asyncio.wrap_future(plugins.start_inquiry(answer)))
        answer = await group_commit.submit(DecideCall(source, request, plugin_result))
    decision = _require_decision(answer)
    if twin := _find_twin(decision):
        await group_commit.submit(SettleTwins(twin))
        decision = _require_decision(await group_commit.submit(DecideCall(source, request)))
    return decision


def _find_twin(decision: dict[str, Any]) -> str:
    """Return the approval whose answer the call waits for, "" for none."""
    return (decision["approval"] or {}).get("twin") or ""


def _require_decision(answer: dict[str, Any] | PluginInquiry) -> dict[str, Any]:
    """Return the decision; raises KeyReuse if the call changed while plugins were consulted."""
    if isinstance(answer, PluginInquiry):
        raise KeyReuse("This call changed while it was decided. Use a new call_id or attempt.")
    return dict(answer)


async def afind_decision(
    source: Source, run: str, tool: str, tool_input: Any, question: str = ""
) -> dict[str, Any] | None:
    """Return the decision of the newest call with that tool and input.

    `question`: the id of a further question about the call.
    None if there is no such call, or it was neither asked about nor refused.
    """
    command = run_commands.FindDecision(source, run, tool, tool_input, question)
    answer: dict[str, Any] | None = await group_commit.submit(command)
    return answer


async def aannounce_retry(source: Source, run: str, lane: str = "") -> Card | None:
    """Return a call that a person let try again, or None.

    Each is returned once. `lane`: the sub-agent that asks.
    """
    card: Card | None = await group_commit.submit(run_commands.AnnounceRetry(source, run, lane))
    return card


async def aget_decision(source: Source, approval: str) -> dict[str, Any]:
    """Return the decision object of an approval, with its permit if available."""
    return dict(await group_commit.submit(run_commands.FetchDecision(source, approval)))


async def aclaim_permit(source: Source, permit: str, body: dict[str, Any], client: str = "") -> dict[str, Any]:
    """Claim a permit; return the call that may run now.

    Raises RequestRefused, also if the policy has changed. The same `client` gets the same answer for the same call
    again until its result arrives.
    """
    answer = await group_commit.submit(permits.ClaimPermit(source, permit, body, client))
    if isinstance(answer, RequestRefused):
        raise answer
    return dict(answer)


async def arecord_result(source: Source, run: str, call_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """Record the result of a call."""
    return dict(await group_commit.submit(results.RecordResult(source, run, call_id, body)))


async def awithdraw_approval(source: Source, approval: str, *, timed_out: bool = False) -> dict[str, Any]:
    """Withdraw a pending approval."""
    return dict(await group_commit.submit(run_commands.WithdrawApproval(source, approval, timed_out=timed_out)))


async def arecord_heartbeat(source: Source, run: str) -> dict[str, Any]:
    """Record a heartbeat of the run's agent."""
    return dict(await group_commit.submit(run_commands.RecordHeartbeat(source, run)))


async def aend_run(source: Source, run: str, outcome: str = "success", reason: str = "") -> dict[str, Any]:
    """End the run."""
    return dict(await group_commit.submit(run_commands.EndRun(source, run, outcome, reason)))


async def aclaim_delivery(approval: str, key: int = 0, connection: str = "") -> dict[str, Any] | None:
    """Claim a decision for sending; None if another connection claimed it.

    `connection`: the name of a connection that waits for the receipt. Raises NotAllowed if its `key` was revoked.
    """
    decision: dict[str, Any] | None = await group_commit.submit(delivery.ClaimDelivery(approval, key, connection))
    return decision


async def aconfirm_delivery(approval: str) -> None:
    """Record that the agent has received a claimed decision."""
    await group_commit.submit(delivery.ConfirmDelivery(approval))


async def arelease_delivery(approval: str, connection: str = "", *, may_have_arrived: bool = False) -> None:
    """Release a claimed decision that was not sent, or not received.

    `may_have_arrived`: the agent may know it nevertheless. That is so for each `connection` that waited for a receipt.
    """
    await group_commit.submit(delivery.ReleaseDelivery(approval, connection, may_have_arrived=may_have_arrived))


async def aexpire_approval(approval: str) -> None:
    """Expire the approval if it is overdue."""
    await group_commit.submit(expiry.ExpireApproval(approval))


async def arenew_holds(approvals: Iterable[str]) -> None:
    """Renew the holds of approvals that requests of this process wait for."""
    await group_commit.submit(holds.RenewHolds(approvals))


async def arelease_hold(approval: str) -> None:
    """Keep an approval whose request ends before its answer.

    The same call, sent again under its id, gets the answer.
    """
    await group_commit.submit(holds.ReleaseHold(approval))


async def areserve_key(source: Source, key: str, request: dict[str, str]) -> HeldKey | StoredAnswer | None:
    """Reserve an idempotency key; return the stored answer if it has one.

    Returns None while another request holds the key. Raises KeyReuse if the key was used with another `request`
    (the query parameters by name).
    """
    reservation: HeldKey | StoredAnswer | None = await group_commit.submit(idempotency.ReserveKey(source, key, request))
    return reservation


async def arenew_key(key: HeldKey) -> None:
    """Renew the lease of a held key; raises RequestRefused if lost."""
    await group_commit.submit(idempotency.UpdateKey(key.renew))


async def astore_answer(key: HeldKey, answer: str) -> None:
    """Store the answer of a held key; raises RequestRefused if lost."""
    await group_commit.submit(idempotency.UpdateKey(lambda tx: key.answer(answer)))


async def arelease_key(key: HeldKey, *, forget: bool) -> None:
    """Release a held key.

    The next request continues its body, or with `forget` starts again.
    """
    await group_commit.submit(idempotency.UpdateKey(lambda tx: key.release(forget=forget)))
