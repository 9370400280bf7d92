"""The event stream: a run's log told as things that happened to its calls, each with the card as it was then.

The log is replayed through the same board that wrote it, so a reader who resumes sees what a reader who stayed saw.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from toolcards import feed
from toolcards.core.calls import facts as f
from toolcards.core.calls import tool_events as h
from toolcards.core.calls.call_json import build_call_json, drop_large_bodies, format_time
from toolcards.core.calls.card import Card
from toolcards.core.calls.tool_events import END_EVENTS, PendingEnd, ToolEventSequencer
from toolcards.core.redaction.redactor import StreamRedactor
from toolcards.core.runs.run_state import RunState
from toolcards.encryption import get_redactor
from toolcards.models import Event, Run
from toolcards.transports import shutdown

KEEP_ALIVE = 15.0  # seconds
BATCH = 500  # events replayed before others get a turn (one page of the feed)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One thing to tell: the event's name, its place in the log, its data."""

    name: str
    seq: int
    data: dict[str, Any]


class EventReplay:
    """Turns a run's log into what is told, one event after the other from the very first one."""

    def __init__(self, run: Run) -> None:
        self._run, self._name = run.pk, run.name
        self._board, self._sequencer = RunState(), ToolEventSequencer()
        self._hide = get_redactor()
        self._texts: dict[tuple[str, str], StreamRedactor] = {}  # what agents write, a secret may come in pieces

    def skip(self, event: Event) -> None:
        """Take the event in without telling it."""
        fact = event.readable_fact
        self._sequencer.release(event.ordinal, fact)
        self._recorded(event, fact)
        self._rest_of_texts(fact)
        self._shown_text(fact)

    def _recorded(self, event: Event, fact: f.AnyFact) -> tuple[Card | None, Card | None, bool, list[str]]:
        """The event's call before and after it, whether it was applied, and what hooks hear of it."""
        before = self._board.cards.get(event.ordinal)
        after, applied = self._board.record(event.ordinal, fact, event.seq)
        if after is None or after is before or not h.may_have_events(before, after):
            return before, after, applied, []
        return before, after, applied, self._sequencer.list_events(event.ordinal, before, after, fact, event.seq)

    def tell(self, event: Event) -> list[StreamEvent]:
        """Take the event in; return what it tells, the end of a call that waited for it first."""
        held = self._sequencer.release(event.ordinal, event.readable_fact)
        ended = [] if held is None else [self._ended(what, held, event) for what in END_EVENTS]
        rests = [self._told("text", event, rest) for rest in self._rest_of_texts(event.readable_fact)]
        return [*ended, *rests, *self._tell(event)]

    def _ended(self, what: str, held: PendingEnd, event: Event) -> StreamEvent:
        told = self._of_call(held.card) | {"hook": self._hook(what, held.card, None, held.position)}
        return self._told("hook", event, told)

    def _tell(self, event: Event) -> list[StreamEvent]:
        fact, board = event.readable_fact, self._board
        if not event.ordinal:
            board.record(0, fact, event.seq)
            telling = _RUN_EVENTS.get(type(fact))
            said = telling(fact, board) if telling else None
            shown = self._shown_text(fact)
            if not said:
                return []
            more = self._hide.value(said[1]) if shown is None else said[1] | {"text": shown}
            return [self._told(said[0], event, more)]
        before, after, applied, hooks = self._recorded(event, fact)
        if after is None or after.state is None or after is before:
            return []
        names = list(_list_event_names(fact, before, after, applied))
        told = self._of_call(after)
        return [
            *(self._told(name, event, told) for name in names),
            *(self._told("hook", event, told | {"hook": self._hook(what, after, before, event.seq)}) for what in hooks),
        ]

    def _hook(self, what: str, card: Card, before: Card | None, position: int) -> dict[str, Any]:
        """What hooks are told (docs/hooks.md), with the id and number that they are told."""
        attempt = h.get_attempt(card)
        said: dict[str, Any] = {
            "event": what, "id": h.build_event_id(f"{self._run}-{card.ordinal}-{attempt}", what, position),
            "seq": h.compute_event_seq(position, what), "attempt": attempt,
        }  # fmt: skip
        if what == h.SETTLED:
            said["outcome"] = h.get_outcome(card, before)
        return said | (self._hide.value(h.build_error(card, before)) or {} if what == h.ERROR else {})

    def streams(self, ordinal: int) -> bool:
        """Whether one more piece of input is nothing but progress of the call."""
        card = self._board.cards.get(ordinal)
        return (
            self._sequencer.pending is None
            and card is not None
            and card.state == "input-streaming"
            and not card.removed
        )

    def progress(self, event: Event) -> StreamEvent:
        """Tell how the event's call is now."""
        return self._told("tool_call_progress", event, self._of_call(self._board.cards[event.ordinal]))

    def _shown_text(self, fact: f.AnyFact) -> str | None:
        """A piece of the agent's own text without secrets, also without those that began in the piece before."""
        if not isinstance(fact, f.TextDelta):
            return None
        return self._texts.setdefault((fact.lane, fact.channel), StreamRedactor(self._hide)).text(fact.text)

    def _rest_of_texts(self, fact: f.AnyFact) -> list[dict[str, Any]]:
        """Return what was held back of texts that end with this fact, as nothing continues them."""
        if not isinstance(fact, _TEXT_ENDS):
            return []
        ended, self._texts = self._texts, {}
        rests = ((channel, stream.rest()) for (_, channel), stream in ended.items())
        return [{"text": rest, "channel": channel} for channel, rest in rests if rest]

    def _of_call(self, card: Card) -> dict[str, Any]:
        card = self._hide.card(card)
        call = build_call_json(card, run=self._name, id=f"{self._run}-{card.ordinal}")
        return {"state": call["state"], "kind": card.tool.kind, "call": drop_large_bodies(call)}

    def _told(self, name: str, event: Event, more: dict[str, Any]) -> StreamEvent:
        return StreamEvent(name, event.seq, {"seq": event.seq, "run": self._name, "at": format_time(event.at), **more})


def _list_event_names(fact: f.AnyFact, before: Card | None, after: Card, applied: bool) -> Iterator[str]:
    """What happened to a call, in the order in which it is told; a card that became another one quietly: progress."""
    if isinstance(fact, f.CallRemoved):
        yield "tool_call_removed"
        return
    told = False
    if before is None or before.state is None:
        told = True
        yield "tool_call_started"
    asked, ask = before.approval if before else None, after.approval
    if isinstance(fact, f.ApprovalRequested) and ask is not None and (asked is None or asked.id != ask.id):
        told = True
        yield "approval_requested"
    if ask is not None and ask.state != "pending" and _was_pending(asked, ask):
        told = True
        yield "approval_resolved"
    if after.finished and (before is None or not before.finished or _has_new_outcome(before, after)):
        told = True
        yield "tool_call_completed"
    if not told:
        yield "tool_call_progress"


def _was_pending(asked: Any, ask: Any) -> bool:
    return asked is not None and asked.id == ask.id and asked.state == "pending"


def _has_new_outcome(before: Card, after: Card) -> bool:
    """A real result came after an end that we had only concluded, or a person has said what it was."""
    told = before.by_hand is not after.by_hand
    return told or before.state is not after.state or (before.soft and not after.soft)


def _describe_step(phase: str) -> Callable[[Any, RunState], tuple[str, dict[str, Any]]]:
    def describe(fact: Any, board: RunState) -> tuple[str, dict[str, Any]]:
        return "step", {"step": board.context.step, "name": getattr(fact, "name", ""), "phase": phase}

    return describe


def _describe_run_end(fact: f.RunEnded, board: RunState) -> tuple[str, dict[str, Any]] | None:
    if fact.lane:
        return None
    return "run_finished", {"status": board.status, "reason": fact.reason}


_TEXT_ENDS = (f.RunStarted, f.RunEnded, f.MessageStarted, f.StepStarted, f.StepFinished)
_RUN_EVENTS: dict[type, Callable[[Any, RunState], tuple[str, dict[str, Any]] | None]] = {
    f.RunStarted: lambda fact, board: ("run_started", {"agent": board.context.agent, "title": fact.title}),
    f.RunEnded: _describe_run_end,
    f.StepStarted: _describe_step("started"),
    f.StepFinished: _describe_step("finished"),
    f.StepReset: _describe_step("reset"),
    f.TextDelta: lambda fact, board: ("text", {"text": fact.text, "channel": fact.channel}),
}


def coalesce(teller: EventReplay, batch: Iterable[Event]) -> Iterator[StreamEvent]:
    """Tell a batch; of a call's pieces of input that follow each other, only the last is told."""
    held: dict[int, Event] = {}
    for event in batch:
        if event.fact.startswith('{"type":"input-delta"') and teller.streams(event.ordinal):
            teller.skip(event)
            held[event.ordinal] = event
            continue
        yield from _build_progress_events(teller, held)
        held = {}
        yield from teller.tell(event)
    yield from _build_progress_events(teller, held)


def _build_progress_events(teller: EventReplay, held: dict[int, Event]) -> Iterator[StreamEvent]:
    for event in sorted(held.values(), key=lambda event: event.seq):
        yield teller.progress(event)


async def stream_frames(run: Run, after: int) -> AsyncIterator[bytes]:
    """Yield the stream as server-sent events until the server stops; what came up to `after` is not told again."""
    teller, spoken = EventReplay(run), time.monotonic()
    yield b": this is the event stream of one run\n\n"
    async for batch in shutdown.iterate_until_stopping(feed.follow_events(run.pk)):
        old = [event for event in batch if event.seq <= after]
        for event in old:
            teller.skip(event)
        told = list(coalesce(teller, batch[len(old) :]))
        if told:
            spoken = time.monotonic()
            yield "".join(_format_frames(told)).encode()
        elif time.monotonic() - spoken >= KEEP_ALIVE:
            spoken = time.monotonic()
            yield b": still here\n\n"


def _format_frames(told: list[StreamEvent]) -> Iterator[str]:
    """An event of the log that tells two things has its id on the last: who resumes between them gets both again."""
    for at, one in enumerate(told):
        last = at + 1 == len(told) or told[at + 1].seq != one.seq
        mark = f"id: {one.seq}\n" if last else ""
        yield f"event: {one.name}\n{mark}data: {json.dumps(one.data, separators=(',', ':'))}\n\n"


async def read_page(run: Run, cursor: tuple[float, ...] | None, limit: int) -> dict[str, Any]:
    """Return a page of the same as JSON; here every piece of input is told."""
    teller, events = EventReplay(run), []
    done, within = (int(cursor[0]), int(cursor[1])) if cursor else (0, 0)
    seq, last = 0, (0, 0)
    while True:
        batch = await feed.read_events(run.pk, seq, BATCH)
        for event in batch:
            if event.seq < done:
                teller.skip(event)
                continue
            told = teller.tell(event)
            for nth, one in enumerate(told, 1):
                if event.seq == done and nth <= within:
                    continue
                if len(events) == limit:
                    return {"events": events, "next": f"{last[0]}.{last[1]}"}
                events.append({"event": one.name, **one.data})
                last = event.seq, nth  # of the things that one position tells, the how many-eth
        if len(batch) < BATCH:
            return {"events": events, "next": None}
        seq = batch[-1].seq
