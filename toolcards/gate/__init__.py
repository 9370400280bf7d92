"""The only writer. Every change to a run passes through one of these doors.

Each door exists twice: plain for threads (`vote`), with an `a` for the event loop (`adecide`).
All of them raise `Refused` (see refusals.py) where the answer is no.
"""

from __future__ import annotations

import asyncio
from typing import Any

from toolcards.core.calls.card import Card
from toolcards.gate import emergency
from toolcards.gate.agents import call_status, idempotency, results, run_commands
from toolcards.gate.agents.idempotency import HeldKey
from toolcards.gate.agents.ingest import Stream
from toolcards.gate.agents.keyed_stream import KeyedStream
from toolcards.gate.agents.liveness import REQUEST_LEASE
from toolcards.gate.agents.stream_end import build_end_of_stream
from toolcards.gate.agents.stream_queue import CommitReport
from toolcards.gate.approvals import delivery, expiry, manual_outcome, permits, reevaluation, revocation, votes
from toolcards.gate.approvals.manual_outcome import ManualOutcome
from toolcards.gate.approvals.votes import Ballot
from toolcards.gate.decisions import plugins
from toolcards.gate.decisions.decision_request import DecideCall, DecisionRequest
from toolcards.gate.decisions.plugins import PluginInquiry
from toolcards.gate.maintenance import rebuild as rebuilding
from toolcards.gate.maintenance import retention
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
from toolcards.gate.writer.group_commit import CommitUnknown
from toolcards.models import Source

sweep = expiry.sweep
run_retention = retention.run_retention
open_stream = Stream
open_keyed_stream = KeyedStream
drain = group_commit.WRITER.drain


def count_backlog() -> int:
    """Return how many frames are taken in and not committed yet, in this process."""
    return group_commit.WRITER.backlog


def get_oldest_wait() -> float:
    """Return for how many seconds the oldest work of this process has waited to be written, 0 if none does."""
    return group_commit.WRITER.oldest_wait


async def arecord_pulse() -> float | None:
    """Move the pulse of the installation on, a small write; return when it last was, None for the first time."""
    before: float | None = await group_commit.submit(timekeeping.AdvancePulse())
    return before


def vote(person: Any, ballot: Ballot) -> Card:
    """Cast one person's vote; return the call's card afterwards."""
    card: Card = group_commit.execute(votes.CastVote(person, ballot))
    return card


def revoke_approval(person: Any, approval: str) -> Card:
    """Take a yes back that the agent has not heard yet; return the call's card afterwards."""
    card: Card = group_commit.execute(revocation.RevokeApproval(person, approval))
    return card


def record_manual_outcome(person: Any, outcome: ManualOutcome) -> Card:
    """Write down what a person found of a call whose end nobody had heard; return its card afterwards."""
    card: Card = group_commit.execute(manual_outcome.RecordManualOutcome(person, outcome))
    return card


def set_kill_switch(by: str, on: bool, reason: str = "", kind: str = "human") -> dict[str, Any]:
    """Throw the kill switch, or turn it off."""
    return dict(group_commit.execute(emergency.SetKillSwitch(by, on, reason, kind)))


def break_glass(by: str, reason: str, minutes: float, kind: str = "human") -> dict[str, Any]:
    """Break the glass for so many minutes; 0 puts it back."""
    return dict(group_commit.execute(emergency.SetBreakGlass(by, reason, minutes, kind)))


def reevaluate_waiting(by: str) -> dict[str, int]:
    """Apply the active policy to the calls that wait; return how many were allowed, denied, asked anew and left."""
    return dict(group_commit.execute(reevaluation.ReevaluateWaiting(by)))


def decide(source: Source, asking: DecisionRequest) -> dict[str, Any]:
    """Judge a call before it runs; return the decision object of docs/api.md."""
    said = group_commit.execute(DecideCall(source, asking))
    if isinstance(said, PluginInquiry):
        said = group_commit.execute(DecideCall(source, asking, plugins.start_inquiry(said).result()))
    return _decision(said)


async def adecide(source: Source, asking: DecisionRequest) -> dict[str, Any]:
    """Judge a call before it runs; return the decision object of docs/api.md. Plug-ins are asked between commits."""
    said = await group_commit.submit(DecideCall(source, asking))
    if isinstance(said, PluginInquiry):
        heard = await asyncio.shield(asyncio.wrap_future(plugins.start_inquiry(said)))
        said = await group_commit.submit(DecideCall(source, asking, heard))
    return _decision(said)


def _decision(said: dict[str, Any] | PluginInquiry) -> dict[str, Any]:
    """What was decided; a call that changed while plug-ins were asked about it is not."""
    if isinstance(said, PluginInquiry):
        raise KeyReuse("This call changed while it was judged; use a new call_id or attempt.")
    return dict(said)


async def aget_decision(source: Source, approval: str) -> dict[str, Any]:
    """Return the decision object of the call as it stands now, with its permit if there is one to give."""
    return dict(await group_commit.submit(run_commands.FetchDecision(source, approval)))


async def areserve_key(source: Source, key: str, request: dict[str, str]) -> HeldKey | str | None:
    """Reserve an idempotency key; return its answer if it has one, None while another request holds it.

    Raises KeyReuse if the key was used with another `request`: what the query says, by name.
    """
    reserved: HeldKey | str | None = await group_commit.submit(idempotency.ReserveKey(source, key, request))
    return reserved


async def arenew_key(key: HeldKey) -> None:
    """Keep a held key for another lease; raises Refused once another request has taken it over."""
    await group_commit.submit(idempotency.UpdateKey(key.renew))


async def astore_answer(key: HeldKey, answer: str) -> None:
    """Write down what a held key was answered; raises Refused if another request has taken it over."""
    await group_commit.submit(idempotency.UpdateKey(lambda tx: key.answer(answer)))


async def arelease_key(key: HeldKey, *, forget: bool) -> None:
    """Let go of a held key, so that the next request continues its body; `forget`: begins a new one."""
    await group_commit.submit(idempotency.UpdateKey(lambda tx: key.release(forget=forget)))


def rebuild(check: bool = False) -> list[str]:
    """Make the cards what the log says, or only compare; return what differed, one line each."""
    return rebuilding.rebuild(check=check)


async def aclaim_permit(source: Source, permit: str, body: dict[str, Any], client: str = "") -> dict[str, Any]:
    """Use up a permit; where policy has changed its mind, that is written down and then raised.

    The same `client` claiming the same call again gets the same answer until the result is in.
    """
    answer = await group_commit.submit(permits.ClaimPermit(source, permit, body, client))
    if isinstance(answer, RequestRefused):
        raise answer
    return dict(answer)


async def arecord_result(source: Source, run: str, call_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """Write down what came of a call."""
    return dict(await group_commit.submit(results.RecordResult(source, run, call_id, body)))


async def awithdraw_approval(source: Source, approval: str) -> dict[str, Any]:
    """Take a question back."""
    return dict(await group_commit.submit(run_commands.WithdrawApproval(source, approval)))


async def arecord_heartbeat(source: Source, run: str) -> dict[str, Any]:
    """Say that the agent is alive."""
    return dict(await group_commit.submit(run_commands.RecordHeartbeat(source, run)))


async def aend_run(source: Source, run: str, outcome: str = "success", reason: str = "") -> dict[str, Any]:
    """End the run."""
    return dict(await group_commit.submit(run_commands.EndRun(source, run, outcome, reason)))


async def aclaim_delivery(approval: str) -> dict[str, Any] | None:
    """Take an answer in order to send it to the agent; None if another connection took it."""
    taken: dict[str, Any] | None = await group_commit.submit(delivery.ClaimDelivery(approval))
    return taken


async def arelease_delivery(approval: str) -> None:
    """Give an answer back that could not be sent."""
    await group_commit.submit(delivery.ReleaseDelivery(approval))


async def aexpire_approval(approval: str) -> None:
    """Close the question if its time is over and nobody answered; the clock may be a moment late."""
    await group_commit.submit(expiry.ExpireApproval(approval))


async def afind_decision(source: Source, run: str, tool: str, given: Any) -> dict[str, Any] | None:
    """Return the decision object of the newest call with that tool and input, if it was asked for or refused."""
    found: dict[str, Any] | None = await group_commit.submit(call_status.FindDecision(source, run, tool, given))
    return found


__all__ = [
    "REQUEST_LEASE",
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
    "VersionConflict",
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
    "load_draft",
    "open_keyed_stream",
    "open_stream",
    "rebuild",
    "record_manual_outcome",
    "reevaluate_waiting",
    "replace_draft",
    "revoke_approval",
    "run_retention",
    "set_kill_switch",
    "sweep",
    "vote",
]  # fmt: skip
