"""The only writer. Every change to a run passes through one of these doors.

Each door exists twice: plain for threads (`vote`), with an `a` for the event loop (`adecide`).
All of them raise `Refused` (see refusals.py) where the answer is no.
"""

from __future__ import annotations

import asyncio
from typing import Any

from toolcards.core.lifecycle import Card
from toolcards.gate import (
    agents,
    clock,
    consulting,
    delivery,
    journal,
    permits,
    pulse,
    reapplying,
    rebuilding,
    receipts,
    results,
    retention,
    settling,
    standing,
    switches,
    undoing,
    votes,
)
from toolcards.gate.consulting import Inquiry
from toolcards.gate.decision import Asking, Decide
from toolcards.gate.ingest import Committed, Stream
from toolcards.gate.journal import Undecided
from toolcards.gate.keyed_stream import KeyedStream
from toolcards.gate.liveness import SILENCE
from toolcards.gate.policies import Superseded, activate, active_number, draft, replace_draft
from toolcards.gate.receipts import HeldKey
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
from toolcards.gate.settling import Finding
from toolcards.gate.stream_end import end_of_stream
from toolcards.gate.votes import Ballot
from toolcards.models import Source

sweep = clock.sweep
retain = retention.retain
open_stream = Stream
open_keyed_stream = KeyedStream
drain = journal.WRITER.drain


def backlog() -> int:
    """Return how many frames are taken in and not committed yet, in this process."""
    return journal.WRITER.backlog


def oldest_waiting() -> float:
    """Return for how many seconds the oldest work of this process has waited to be written, 0 if none does."""
    return journal.WRITER.waiting


async def apulse() -> float | None:
    """Move the pulse of the installation on, a small write; return when it last was, None for the first time."""
    before: float | None = await journal.submit(pulse.Beat())
    return before


def vote(person: Any, ballot: Ballot) -> Card:
    """Cast one person's vote; return the call's card afterwards."""
    card: Card = journal.do(votes.CastVote(person, ballot))
    return card


def take_back(person: Any, approval: str) -> Card:
    """Take a yes back that the agent has not heard yet; return the call's card afterwards."""
    card: Card = journal.do(undoing.TakeBack(person, approval))
    return card


def settle(person: Any, said: Finding) -> Card:
    """Write down what a person found of a call whose end nobody had heard; return its card afterwards."""
    card: Card = journal.do(settling.SettleByHand(person, said))
    return card


def throw(by: str, on: bool, reason: str = "", kind: str = "human") -> dict[str, Any]:
    """Throw the kill switch, or turn it off."""
    return dict(journal.do(switches.Throw(by, on, reason, kind)))


def break_glass(by: str, reason: str, minutes: float, kind: str = "human") -> dict[str, Any]:
    """Break the glass for so many minutes; 0 puts it back."""
    return dict(journal.do(switches.Break(by, reason, minutes, kind)))


def reapply(by: str) -> dict[str, int]:
    """Apply the active policy to the calls that wait; return how many were allowed, denied, asked anew and left."""
    return dict(journal.do(reapplying.Reapply(by)))


def decide(source: Source, asking: Asking) -> dict[str, Any]:
    """Judge a call before it runs; return the decision object of docs/api.md."""
    said = journal.do(Decide(source, asking))
    if isinstance(said, Inquiry):
        said = journal.do(Decide(source, asking, consulting.ask(said).result()))
    return _decision(said)


async def adecide(source: Source, asking: Asking) -> dict[str, Any]:
    """Judge a call before it runs; return the decision object of docs/api.md. Plug-ins are asked between commits."""
    said = await journal.submit(Decide(source, asking))
    if isinstance(said, Inquiry):
        heard = await asyncio.shield(asyncio.wrap_future(consulting.ask(said)))
        said = await journal.submit(Decide(source, asking, heard))
    return _decision(said)


def _decision(said: dict[str, Any] | Inquiry) -> dict[str, Any]:
    """What was decided; a call that changed while plug-ins were asked about it is not."""
    if isinstance(said, Inquiry):
        raise KeyReuse("This call changed while it was judged; use a new call_id or attempt.")
    return dict(said)


async def alook(source: Source, approval: str) -> dict[str, Any]:
    """Return the decision object of the call as it stands now, with its permit if there is one to give."""
    return dict(await journal.submit(agents.Look(source, approval)))


async def areserve(source: Source, key: str, request: dict[str, str]) -> HeldKey | str | None:
    """Reserve an idempotency key; return its answer if it has one, None while another request holds it.

    Raises KeyReuse if the key was used with another `request`: what the query says, by name.
    """
    reserved: HeldKey | str | None = await journal.submit(receipts.Reserve(source, key, request))
    return reserved


async def arenew(key: HeldKey) -> None:
    """Keep a held key for another lease; raises Refused once another request has taken it over."""
    await journal.submit(receipts.OnKey(key.renew))


async def areceipt(key: HeldKey, answer: str) -> None:
    """Write down what a held key was answered; raises Refused if another request has taken it over."""
    await journal.submit(receipts.OnKey(lambda tx: key.answer(answer)))


async def arelease(key: HeldKey, *, forget: bool) -> None:
    """Let go of a held key, so that the next request continues its body; `forget`: begins a new one."""
    await journal.submit(receipts.OnKey(lambda tx: key.release(forget=forget)))


def rebuild(check: bool = False) -> list[str]:
    """Make the cards what the log says, or only compare; return what differed, one line each."""
    return rebuilding.rebuild(check=check)


async def aclaim(source: Source, permit: str, body: dict[str, Any], client: str = "") -> dict[str, Any]:
    """Use up a permit; where policy has changed its mind, that is written down and then raised.

    The same `client` claiming the same call again gets the same answer until the result is in.
    """
    answer = await journal.submit(permits.Claim(source, permit, body, client))
    if isinstance(answer, Refused):
        raise answer
    return dict(answer)


async def aresult(source: Source, run: str, call_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """Write down what came of a call."""
    return dict(await journal.submit(results.Result(source, run, call_id, body)))


async def awithdraw(source: Source, approval: str) -> dict[str, Any]:
    """Take a question back."""
    return dict(await journal.submit(agents.Withdraw(source, approval)))


async def abeat(source: Source, run: str) -> dict[str, Any]:
    """Say that the agent is alive."""
    return dict(await journal.submit(agents.Beat(source, run)))


async def aend(source: Source, run: str, outcome: str = "success", reason: str = "") -> dict[str, Any]:
    """End the run."""
    return dict(await journal.submit(agents.End(source, run, outcome, reason)))


async def atake(approval: str) -> dict[str, Any] | None:
    """Take an answer in order to send it to the agent; None if another connection took it."""
    taken: dict[str, Any] | None = await journal.submit(delivery.Take(approval))
    return taken


async def agive_back(approval: str) -> None:
    """Give an answer back that could not be sent."""
    await journal.submit(delivery.GiveBack(approval))


async def aexpire(approval: str) -> None:
    """Close the question if its time is over and nobody answered; the clock may be a moment late."""
    await journal.submit(clock.Expire(approval))


async def astanding(source: Source, run: str, tool: str, given: Any) -> dict[str, Any] | None:
    """Return the decision object of the newest call with that tool and input, if it was asked for or refused."""
    found: dict[str, Any] | None = await journal.submit(standing.Standing(source, run, tool, given))
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
