"""A run's happenings in their order, fact by fact: what was told last may have to wait for the next fact.

Pydantic AI over AG-UI says with the very next frame that a result was none. So the end of a call whose result came in a
message of its own is told only when the next fact of the run has come: then there is one `after` or one `error`, and
`settled` closes it. Nothing else is remembered, and that much can be read from the log, so whoever comes anew tells
the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolcards.core.calls import facts as f
from toolcards.core.calls import tool_events as h
from toolcards.core.calls.card import Card
from toolcards.core.runs.run_state import Board


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A call whose end is not told yet: the card as it ended, and the place of that in the log."""

    ordinal: int
    card: Card
    position: int


@dataclass(frozen=True, slots=True)
class Written:
    """One fact of a run's log, with its place in it."""

    ordinal: int
    seq: int
    fact: f.AnyFact
    applied: bool


class Narrator:
    """One run's."""

    def __init__(self, unsettled: Unsettled | None = None) -> None:
        self.unsettled = unsettled

    @classmethod
    def of(cls, board: Board, tail: Iterable[Written]) -> Narrator:
        """Return the narrator of a run as it was left; `tail`: the last `TAIL` facts of its log, the newest first."""
        since = set()  # whom the facts after it were about
        for written in tail:
            if _belongs(written.fact):
                since.add(written.ordinal)
                continue
            card = board.cards.get(written.ordinal)
            ended = written.applied and isinstance(written.fact, f.OutputReady) and since <= {written.ordinal}
            if ended and card is not None and _may_be_none(card):
                return cls(Unsettled(card.ordinal, card, written.seq))
            break
        return cls()

    def released(self, ordinal: int, fact: f.AnyFact) -> Unsettled | None:
        """Return what is settled now that this fact comes, before anything is told of the fact itself."""
        held = self.unsettled
        if held is None or (held.ordinal == ordinal and _belongs(fact)):
            return None
        self.unsettled = None
        return held

    def told(self, ordinal: int, before: Card | None, after: Card, fact: f.AnyFact, position: int) -> list[str]:
        """Return what happened to the call by the fact, in order."""
        held = self.unsettled
        if held is not None and held.ordinal == ordinal and isinstance(fact, f.OutcomeReported) and before is not None:
            self.unsettled = None
            return h.happenings(before.but(state=h.S.INPUT_AVAILABLE), after)
        events = h.happenings(before, after)
        if h.SETTLED in events and _may_be_none(after):
            self.unsettled = Unsettled(ordinal, after, position)
            events = [event for event in events if event not in ENDING]
        return events


_OURS = "ungoverned"
TAIL = 3
ENDING = (h.AFTER, h.SETTLED)


def _belongs(fact: f.AnyFact) -> bool:
    """Whether the fact says how the call really ended, or is a note of ours about it."""
    return isinstance(fact, f.OutcomeReported) or (isinstance(fact, f.AnomalyRecorded) and fact.code == _OURS)


def _may_be_none(card: Card) -> bool:
    ended = card.state is h.S.OUTPUT_AVAILABLE and card.finished and not card.overruled
    return ended and bool(card.output_message) and not card.removed
