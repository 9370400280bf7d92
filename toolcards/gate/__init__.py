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
from toolcards.gate.agents.ingest import Committed, Stream
from toolcards.gate.agents.keyed_stream import KeyedStream
from toolcards.gate.agents.liveness import SILENCE
from toolcards.gate.agents.stream_end import end_of_stream
from toolcards.gate.approvals import delivery, expiry, manual_outcome, permits, reevaluation, revocation, votes
from toolcards.gate.approvals.manual_outcome import Finding
from toolcards.gate.approvals.votes import Ballot
from toolcards.gate.decisions import plugins
from toolcards.gate.decisions.decision_request import Asking, Decide
from toolcards.gate.decisions.plugins import Inquiry
from toolcards.gate.maintenance import pulse, retention
from toolcards.gate.maintenance import rebuild as rebuilding
from toolcards.gate.policy_store import Superseded, activate, active_number, draft, replace_draft
from toolcards.gate.refusals import (
    AlreadyAnswered,
    Changed,
    Invalid,
    KeyReuse,
    NotAllowed,
    Refused,
    TooLate,
    Unknown,
)
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.group_commit import Undecided
from toolcards.models import Source

sweep = expiry.sweep
retain = retention.retain
open_stream = Stream
open_keyed_stream = KeyedStream
drain = group_commit.WRITER.drain


def backlog() -> int:
    """Return how many frames are taken in and not committed yet, in this process."""
    return group_commit.WRITER.backlog


def oldest_waiting() -> float:
    """Return for how many seconds the oldest work of this process has waited to be written, 0 if none does."""
    return group_commit.WRITER.waiting


async def apulse() -> float | None:
    """Move the pulse of the installation on, a small write; return when it last was, None for the first time."""
    before: float | None = await group_commit.submit(pulse.Beat())
    return before


def vote(person: Any, ballot: Ballot) -> Card:
    """Cast one person's vote; return the call's card afterwards."""
    card: Card = group_commit.do(votes.CastVote(person, ballot))
    return card


def take_back(person: Any, approval: str) -> Card:
    """Take a yes back that the agent has not heard yet; return the call's card afterwards."""
    card: Card = group_commit.do(revocation.TakeBack(person, approval))
    return card


def settle(person: Any, said: Finding) -> Card:
    """Write down what a person found of a call whose end nobody had heard; return its card afterwards."""
    card: Card = group_commit.do(manual_outcome.SettleByHand(person, said))
    return card


def throw(by: str, on: bool, reason: str = "", kind: str = "human") -> dict[str, Any]:
    """Throw the kill switch, or turn it off."""
    return dict(group_commit.do(emergency.Throw(by, on, reason, kind)))


def break_glass(by: str, reason: str, minutes: float, kind: str = "human") -> dict[str, Any]:
    """Break the glass for so many minutes; 0 puts it back."""
    return dict(group_commit.do(emergency.Break(by, reason, minutes, kind)))


def reapply(by: str) -> dict[str, int]:
    """Apply the active policy to the calls that wait; return how many were allowed, denied, asked anew and left."""
    return dict(group_commit.do(reevaluation.Reapply(by)))


def decide(source: Source, asking: Asking) -> dict[str, Any]:
    """Judge a call before it runs; return the decision object of docs/api.md."""
    said = group_commit.do(Decide(source, asking))
    if isinstance(said, Inquiry):
        said = group_commit.do(Decide(source, asking, plugins.ask(said).result()))
    return _decision(said)


async def adecide(source: Source, asking: Asking) -> dict[str, Any]:
    """Judge a call before it runs; return the decision object of docs/api.md. Plug-ins are asked between commits."""
    said = await group_commit.submit(Decide(source, asking))
    if isinstance(said, Inquiry):
        heard = await asyncio.shield(asyncio.wrap_future(plugins.ask(said)))
        said = await group_commit.submit(Decide(source, asking, heard))
    return _decision(said)


def _decision(said: dict[str, Any] | Inquiry) -> dict[str, Any]:
    """What was decided; a call that changed while plug-ins were asked about it is not."""
    if isinstance(said, Inquiry):
        raise KeyReuse("This call changed while it was judged; use a new call_id or attempt.")
    return dict(said)


async def alook(source: Source, approval: str) -> dict[str, Any]:
    """Return the decision object of the call as it stands now, with its permit if there is one to give."""
    return dict(await group_commit.submit(run_commands.Look(source, approval)))


async def areserve(source: Source, key: str, request: dict[str, str]) -> HeldKey | str | None:
    """Reserve an idempotency key; return its answer if it has one, None while another request holds it.

    Raises KeyReuse if the key was used with another `request`: what the query says, by name.
    """
    reserved: HeldKey | str | None = await group_commit.submit(idempotency.Reserve(source, key, request))
    return reserved


async def arenew(key: HeldKey) -> None:
    """Keep a held key for another lease; raises Refused once another request has taken it over."""
    await group_commit.submit(idempotency.OnKey(key.renew))


async def areceipt(key: HeldKey, answer: str) -> None:
    """Write down what a held key was answered; raises Refused if another request has taken it over."""
    await group_commit.submit(idempotency.OnKey(lambda tx: key.answer(answer)))


async def arelease(key: HeldKey, *, forget: bool) -> None:
    """Let go of a held key, so that the next request continues its body; `forget`: begins a new one."""
    await group_commit.submit(idempotency.OnKey(lambda tx: key.release(forget=forget)))


def rebuild(check: bool = False) -> list[str]:
    """Make the cards what the log says, or only compare; return what differed, one line each."""
    return rebuilding.rebuild(check=check)


async def aclaim(source: Source, permit: str, body: dict[str, Any], client: str = "") -> dict[str, Any]:
    """Use up a permit; where policy has changed its mind, that is written down and then raised.

    The same `client` claiming the same call again gets the same answer until the result is in.
    """
    answer = await group_commit.submit(permits.Claim(source, permit, body, client))
    if isinstance(answer, Refused):
        raise answer
    return dict(answer)


async def aresult(source: Source, run: str, call_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """Write down what came of a call."""
    return dict(await group_commit.submit(results.Result(source, run, call_id, body)))


async def awithdraw(source: Source, approval: str) -> dict[str, Any]:
    """Take a question back."""
    return dict(await group_commit.submit(run_commands.Withdraw(source, approval)))


async def abeat(source: Source, run: str) -> dict[str, Any]:
    """Say that the agent is alive."""
    return dict(await group_commit.submit(run_commands.Beat(source, run)))


async def aend(source: Source, run: str, outcome: str = "success", reason: str = "") -> dict[str, Any]:
    """End the run."""
    return dict(await group_commit.submit(run_commands.End(source, run, outcome, reason)))


async def atake(approval: str) -> dict[str, Any] | None:
    """Take an answer in order to send it to the agent; None if another connection took it."""
    taken: dict[str, Any] | None = await group_commit.submit(delivery.Take(approval))
    return taken


async def agive_back(approval: str) -> None:
    """Give an answer back that could not be sent."""
    await group_commit.submit(delivery.GiveBack(approval))


async def aexpire(approval: str) -> None:
    """Close the question if its time is over and nobody answered; the clock may be a moment late."""
    await group_commit.submit(expiry.Expire(approval))


async def astanding(source: Source, run: str, tool: str, given: Any) -> dict[str, Any] | None:
    """Return the decision object of the newest call with that tool and input, if it was asked for or refused."""
    found: dict[str, Any] | None = await group_commit.submit(call_status.Standing(source, run, tool, given))
    return found


__all__ = [
    "SILENCE",
    "AlreadyAnswered",
    "Asking",
    "Ballot",
    "Changed",
    "Committed",
    "Finding",
    "HeldKey",
    "Invalid",
    "KeyReuse",
    "KeyedStream",
    "NotAllowed",
    "Refused",
    "Stream",
    "Superseded",
    "TooLate",
    "Undecided",
    "Unknown",
    "abeat",
    "aclaim",
    "activate",
    "active_number",
    "adecide",
    "aend",
    "aexpire",
    "agive_back",
    "alook",
    "apulse",
    "areceipt",
    "arelease",
    "arenew",
    "areserve",
    "aresult",
    "astanding",
    "atake",
    "awithdraw",
    "backlog",
    "break_glass",
    "decide",
    "draft",
    "drain",
    "end_of_stream",
    "oldest_waiting",
    "open_keyed_stream",
    "open_stream",
    "reapply",
    "rebuild",
    "replace_draft",
    "retain",
    "settle",
    "sweep",
    "take_back",
    "throw",
    "vote",
]  # fmt: skip
