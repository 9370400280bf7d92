"""The gate: the only writer of runs, events, calls and approvals.

Import from this package only. Two of its modules are public as well: `policy_store` (policy versions and the draft)
and `emergency` (the state of the kill switch and break-glass).

Functions with the prefix `a` are for the event loop, the others block their thread. A request that the gate refuses
raises `RequestRefused` (refusals.py).

- Frames of agents: `open_stream`, `open_keyed_stream`, `build_end_of_stream`, and the keys of keyed bodies
  (`areserve_key`, `arenew_key`, `astore_answer`, `arelease_key`).
- Calls that agents ask to run: `decide`, `adecide`, `aget_decision`, `afind_decision`, `aclaim_permit`,
  `arecord_result`, `awithdraw_approval`, `arecord_heartbeat`, `aend_run`.
- Delivery of decisions: `aclaim_delivery`, `arelease_delivery`, `aexpire_approval`.
- People: `vote`, `revoke_approval`, `record_manual_outcome`, `set_kill_switch`, `break_glass`, `revoke_grant`,
  `accept_tool`, `reevaluate_waiting`.
- Policy: `activate`, `load_draft`, `replace_draft`, `get_active_version_number`.
- Periodic jobs and maintenance: `sweep`, `run_retention`, `rebuild`, `reseal`, `arecord_pulse`, `drain`.
- Reads: `count_backlog`, `get_oldest_wait`, `get_undo_deadline`, `is_tool_announced`, `iterate_steps`,
  `list_identities`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from toolcards.core.calls.card import Card
from toolcards.gate import emergency
from toolcards.gate.agents import idempotency, results, run_commands
from toolcards.gate.agents.idempotency import HeldKey
from toolcards.gate.agents.ingest import Stream
from toolcards.gate.agents.keyed_stream import KeyedStream
from toolcards.gate.agents.liveness import REQUEST_LEASE
from toolcards.gate.agents.stream_end import build_end_of_stream
from toolcards.gate.agents.stream_queue import CommitReport
from toolcards.gate.approvals import delivery, expiry, manual_outcome, permits, reevaluation, revocation, votes
from toolcards.gate.approvals.manual_outcome import ManualOutcome
from toolcards.gate.approvals.revocation import get_undo_deadline
from toolcards.gate.approvals.votes import Ballot
from toolcards.gate.decisions import plugins
from toolcards.gate.decisions.decision_request import DecideCall, DecisionRequest
from toolcards.gate.decisions.eligibility import list_identities
from toolcards.gate.decisions.grants import revoke_grant
from toolcards.gate.decisions.plugins import PluginInquiry
from toolcards.gate.decisions.tool_register import accept_tool, is_tool_announced
from toolcards.gate.maintenance import rebuild as rebuilding
from toolcards.gate.maintenance import retention
from toolcards.gate.maintenance.rekey import BATCH as RESEAL_BATCH
from toolcards.gate.maintenance.rekey import reseal
from toolcards.gate.policy_store import VersionConflict, activate, get_active_version_number, load_draft, replace_draft
from toolcards.gate.refusals import (
    AlreadyDecided,
    CallChanged,
    InvalidRequest,
    KeyReuse,
    NotAllowed,
    NotFound,
    RequestRefused,
    TooLate,
)
from toolcards.gate.writer import group_commit, timekeeping
from toolcards.gate.writer.call_trace import TraceStep, iterate_steps
from toolcards.gate.writer.group_commit import CommitUnknown
from toolcards.models import Source

sweep = expiry.sweep
run_retention = retention.run_retention
open_stream = Stream
open_keyed_stream = KeyedStream
drain = group_commit.WRITER.drain


def count_backlog() -> int:
    """Return how many frames this process has accepted and not committed yet."""
    return group_commit.WRITER.backlog


def get_oldest_wait() -> float:
    """Return how many seconds the oldest work has waited, 0 for none."""
    return group_commit.WRITER.oldest_wait


async def arecord_pulse() -> float | None:
    """Write the pulse; return the time of the previous one, if any."""
    previous: float | None = await group_commit.submit(timekeeping.AdvancePulse())
    return previous


def vote(person: Any, ballot: Ballot) -> Card:
    """Cast a vote; return the call's updated card."""
    card: Card = group_commit.execute_in_group(votes.CastVote(person, ballot))
    return card


def revoke_approval(person: Any, approval: str) -> Card:
    """Revoke an undelivered approval; return the updated card."""
    card: Card = group_commit.execute(revocation.RevokeApproval(person, approval))
    return card


def record_manual_outcome(person: Any, outcome: ManualOutcome) -> Card:
    """Record the outcome of a lost call; return the updated card."""
    card: Card = group_commit.execute(manual_outcome.RecordManualOutcome(person, outcome))
    return card


def set_kill_switch(actor: str, on: bool, reason: str = "", kind: str = "human") -> dict[str, Any]:
    """Turn the kill switch on or off."""
    return dict(group_commit.execute(emergency.SetKillSwitch(actor, on, reason, kind)))


def break_glass(actor: str, reason: str, minutes: float, kind: str = "human") -> dict[str, Any]:
    """Start break-glass for a number of minutes; 0 ends it."""
    return dict(group_commit.execute(emergency.SetBreakGlass(actor, reason, minutes, kind)))


def reevaluate_waiting(actor: str) -> dict[str, int]:
    """Apply the active policy to the waiting calls.

    Return the number of calls `allowed`, `denied`, `asked_anew` and `left` as they were.
    """
    return dict(group_commit.execute(reevaluation.ReevaluateWaiting(actor)))


def decide(source: Source, request: DecisionRequest) -> dict[str, Any]:
    """Decide on a call before it runs; return the decision object."""
    answer = group_commit.execute(DecideCall(source, request))
    if isinstance(answer, PluginInquiry):
        plugin_result = plugins.start_inquiry(answer).result()
        answer = group_commit.execute(DecideCall(source, request, plugin_result))
    return _require_decision(answer)


async def adecide(source: Source, request: DecisionRequest) -> dict[str, Any]:
    """Decide on a call before it runs; return the decision object.

    Plug-ins are consulted between two commits.
    """
    answer = await group_commit.submit(DecideCall(source, request))
    if isinstance(answer, PluginInquiry):
        plugin_result = await asyncio.shield(asyncio.wrap_future(plugins.start_inquiry(answer)))
        answer = await group_commit.submit(DecideCall(source, request, plugin_result))
    return _require_decision(answer)


def _require_decision(answer: dict[str, Any] | PluginInquiry) -> dict[str, Any]:
    """Return the decision; raises KeyReuse if the call changed while plug-ins were consulted."""
    if isinstance(answer, PluginInquiry):
        raise KeyReuse("This call changed while it was decided. Use a new call_id or attempt.")
    return dict(answer)


async def aget_decision(source: Source, approval: str) -> dict[str, Any]:
    """Return the decision object of an approval, with its permit if available."""
    return dict(await group_commit.submit(run_commands.FetchDecision(source, approval)))


async def areserve_key(source: Source, key: str, request: dict[str, str]) -> HeldKey | str | None:
    """Reserve an idempotency key; return the stored answer if it has one.

    Returns None while another request holds the key. Raises KeyReuse if the key was used with another `request`
    (the query parameters by name).
    """
    reserved: HeldKey | str | None = await group_commit.submit(idempotency.ReserveKey(source, key, request))
    return reserved


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


def rebuild(check: bool = False) -> list[str]:
    """Rebuild (or check) the cards from the log; return the differences."""
    return rebuilding.rebuild(check=check)


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


async def aclaim_delivery(approval: str) -> dict[str, Any] | None:
    """Claim a decision for sending; None if another connection claimed it."""
    decision: dict[str, Any] | None = await group_commit.submit(delivery.ClaimDelivery(approval))
    return decision


async def arelease_delivery(approval: str) -> None:
    """Release a claimed decision that could not be sent."""
    await group_commit.submit(delivery.ReleaseDelivery(approval))


async def aexpire_approval(approval: str) -> None:
    """Expire the approval if it is overdue."""
    await group_commit.submit(expiry.ExpireApproval(approval))


async def afind_decision(source: Source, run: str, tool: str, tool_input: Any) -> dict[str, Any] | None:
    """Return the decision of the newest call with that tool and input.

    None if there is no such call, or it was neither asked about nor refused.
    """
    answer: dict[str, Any] | None = await group_commit.submit(run_commands.FindDecision(source, run, tool, tool_input))
    return answer


__all__ = [
    "REQUEST_LEASE",
    "RESEAL_BATCH",
    "AlreadyDecided",
    "Ballot",
    "CallChanged",
    "CommitReport",
    "CommitUnknown",
    "DecisionRequest",
    "HeldKey",
    "InvalidRequest",
    "KeyReuse",
    "KeyedStream",
    "ManualOutcome",
    "NotAllowed",
    "NotFound",
    "RequestRefused",
    "Stream",
    "TooLate",
    "TraceStep",
    "VersionConflict",
    "accept_tool",
    "aclaim_delivery",
    "aclaim_permit",
    "activate",
    "adecide",
    "aend_run",
    "aexpire_approval",
    "afind_decision",
    "aget_decision",
    "arecord_heartbeat",
    "arecord_pulse",
    "arecord_result",
    "arelease_delivery",
    "arelease_key",
    "arenew_key",
    "areserve_key",
    "astore_answer",
    "awithdraw_approval",
    "break_glass",
    "build_end_of_stream",
    "count_backlog",
    "decide",
    "drain",
    "get_active_version_number",
    "get_oldest_wait",
    "get_undo_deadline",
    "is_tool_announced",
    "iterate_steps",
    "list_identities",
    "load_draft",
    "open_keyed_stream",
    "open_stream",
    "rebuild",
    "record_manual_outcome",
    "reevaluate_waiting",
    "replace_draft",
    "reseal",
    "revoke_approval",
    "revoke_grant",
    "run_retention",
    "set_kill_switch",
    "sweep",
    "vote",
]  # fmt: skip
