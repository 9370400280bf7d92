"""A run's log as events of its calls, each with the card at that time.

The log is replayed through the same run state that wrote it, so a reader who resumes gets the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.calls import tool_events as h
from toolcards.core.calls.call_json import build_call_json, drop_large_bodies, format_time
from toolcards.core.calls.card import Card
from toolcards.core.calls.tool_events import END_EVENTS, PendingEnd, ToolEventSequencer
from toolcards.core.redaction.redactor import StreamRedactor
from toolcards.core.runs.run_state import RunState
from toolcards.encryption import get_redactor
from toolcards.models import Event, Run


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of the stream: its name, its sequence number, its data."""

    name: str
    seq: int
    data: dict[str, Any]


class EventReplay:
    """Turns a run's log into stream events, from its first event on."""

    def __init__(self, run: Run) -> None:
        self._run, self._name = run.pk, run.name
        self._board, self._sequencer = RunState(), ToolEventSequencer()
        self._hide = get_redactor()
        self._texts: dict[tuple[str, str], StreamRedactor] = {}  # texts of agents: a secret can be split over pieces

    def skip(self, event: Event) -> None:
        """Apply the event without output."""
        fact = event.readable_fact
        self._sequencer.release(event.ordinal, fact)
        self._record(event, fact)
        self._release_texts(fact)
        self._redact_text(fact)

    def _record(self, event: Event, fact: f.AnyFact) -> tuple[Card | None, Card | None, bool, list[str]]:
        """Return the card before and after, whether the event was applied, and its hook events."""
        before = self._board.cards.get(event.ordinal)
        after, is_applied = self._board.record(event.ordinal, fact, event.seq)
        if after is None or after is before or not h.may_have_events(before, after):
            return before, after, is_applied, []
        return before, after, is_applied, self._sequencer.list_events(event.ordinal, before, after, fact, event.seq)

    def convert(self, event: Event) -> list[StreamEvent]:
        """Apply the event.

        Return its stream events, a pending end of a call first.
        """
        pending_end = self._sequencer.release(event.ordinal, event.readable_fact)
        end_events = (
            [] if pending_end is None else [self._build_end_event(name, pending_end, event) for name in END_EVENTS]
        )
        text_events = [self._build_event("text", event, text) for text in self._release_texts(event.readable_fact)]
        return [*end_events, *text_events, *self._convert(event)]

    def _build_end_event(self, name: str, pending_end: PendingEnd, event: Event) -> StreamEvent:
        data = self._build_call(pending_end.card) | {
            "hook": self._build_hook(name, pending_end.card, None, pending_end.position)
        }
        return self._build_event("hook", event, data)

    def _convert(self, event: Event) -> list[StreamEvent]:
        fact, board = event.readable_fact, self._board
        if not event.ordinal:
            board.record(0, fact, event.seq)
            describe = _RUN_EVENTS.get(type(fact))
            description = describe(fact, board) if describe else None
            text = self._redact_text(fact)
            if not description:
                return []
            more = self._hide.value(description[1]) if text is None else description[1] | {"text": text}
            return [self._build_event(description[0], event, more)]
        before, after, is_applied, hooks = self._record(event, fact)
        if after is None or after.state is None or after is before:
            return []
        names = list(_list_event_names(fact, before, after, is_applied))
        data = self._build_call(after)
        return [
            *(self._build_event(name, event, data) for name in names),
            *(
                self._build_event("hook", event, data | {"hook": self._build_hook(hook, after, before, event.seq)})
                for hook in hooks
            ),
        ]

    def _build_hook(self, name: str, card: Card, before: Card | None, position: int) -> dict[str, Any]:
        """Return the hook event of docs/hooks.md, with the same id and number."""
        attempt = h.get_attempt(card)
        hook: dict[str, Any] = {
            "event": name, "id": h.build_event_id(f"{self._run}-{card.ordinal}-{attempt}", name, position),
            "seq": h.compute_event_seq(position, name), "attempt": attempt,
        }  # fmt: skip
        if name == h.EXECUTE_SETTLED:
            hook["outcome"] = h.get_outcome(card, before)
        return hook | (self._hide.value(h.build_error(card, before)) or {} if name == h.EXECUTE_ERROR else {})

    def is_progress(self, ordinal: int) -> bool:
        """Return whether another piece of input only advances the call."""
        card = self._board.cards.get(ordinal)
        return (
            self._sequencer.pending is None
            and card is not None
            and card.state == "input-streaming"
            and not card.removed
        )

    def build_progress(self, event: Event) -> StreamEvent:
        """Return the progress event of the event's call."""
        return self._build_event("tool_call_progress", event, self._build_call(self._board.cards[event.ordinal]))

    def _redact_text(self, fact: f.AnyFact) -> str | None:
        """Return a piece of the agent's text without secrets, also split ones."""
        if not isinstance(fact, f.TextDelta):
            return None
        return self._texts.setdefault((fact.lane, fact.channel), StreamRedactor(self._hide)).text(fact.text)

    def _release_texts(self, fact: f.AnyFact) -> list[dict[str, Any]]:
        """Return the withheld ends of the texts that this fact ends."""
        if not isinstance(fact, _TEXT_ENDS):
            return []
        texts, self._texts = self._texts, {}
        tails = ((channel, stream.flush()) for (_, channel), stream in texts.items())
        return [{"text": tail, "channel": channel} for channel, tail in tails if tail]

    def _build_call(self, card: Card) -> dict[str, Any]:
        card = self._hide.card(card)
        call = build_call_json(card, run=self._name, id=f"{self._run}-{card.ordinal}")
        return {"state": call["state"], "kind": card.tool.kind, "call": drop_large_bodies(call)}

    def _build_event(self, name: str, event: Event, more: dict[str, Any]) -> StreamEvent:
        return StreamEvent(name, event.seq, {"seq": event.seq, "run": self._name, "at": format_time(event.at), **more})


def _list_event_names(fact: f.AnyFact, before: Card | None, after: Card, is_applied: bool) -> Iterator[str]:
    """Yield the names of the event's stream events, in order; progress if there is no other."""
    if isinstance(fact, f.CallRemoved):
        yield "tool_call_removed"
        return
    has_name = False
    if before is None or before.state is None:
        has_name = True
        yield "tool_call_started"
    earlier, approval = before.approval if before else None, after.approval
    if (
        isinstance(fact, f.ApprovalRequested)
        and approval is not None
        and (earlier is None or earlier.id != approval.id)
    ):
        has_name = True
        yield "approval_requested"
    if approval is not None and approval.state != "pending" and _was_pending(earlier, approval):
        has_name = True
        yield "approval_resolved"
    if after.finished and (before is None or not before.finished or _has_new_outcome(before, after)):
        has_name = True
        yield "tool_call_completed"
    if not has_name:
        yield "tool_call_progress"


def _was_pending(earlier: Any, approval: Any) -> bool:
    return earlier is not None and earlier.id == approval.id and earlier.state == "pending"


def _has_new_outcome(before: Card, after: Card) -> bool:
    """Return whether a real result replaced an inferred end, or a person recorded one."""
    is_new_manual_outcome = before.by_hand is not after.by_hand
    return is_new_manual_outcome or before.state is not after.state or (before.soft and not after.soft)


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


def coalesce(replay: EventReplay, batch: Iterable[Event]) -> Iterator[StreamEvent]:
    """Yield the stream events of a batch.

    Join consecutive pieces of a call's input.
    """
    latest: dict[int, Event] = {}
    for event in batch:
        if event.fact.startswith('{"type":"input-delta"') and replay.is_progress(event.ordinal):
            replay.skip(event)
            latest[event.ordinal] = event
            continue
        yield from _build_progress_events(replay, latest)
        latest = {}
        yield from replay.convert(event)
    yield from _build_progress_events(replay, latest)


def _build_progress_events(replay: EventReplay, latest: dict[int, Event]) -> Iterator[StreamEvent]:
    for event in sorted(latest.values(), key=lambda event: event.seq):
        yield replay.build_progress(event)
