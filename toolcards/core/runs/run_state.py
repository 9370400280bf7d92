"""The state of one run: its cards and its context.

`route` returns the facts to log for a fact (see `routing`) without side effects; `record` applies one logged fact.
A state rebuilt from a log by `record` alone equals the state that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.reducer import advance
from toolcards.core.runs.input_routing import INPUT_FACTS, Routed
from toolcards.core.runs.routing import Router
from toolcards.core.runs.run_context import RunContext

__all__ = ["Routed", "RunContext", "RunState"]

# Facts that may change on their way to a card that the caller names; others are logged as they are.
_ROUTED = (*INPUT_FACTS, f.OutputPartial, f.OutputReady, f.InputChunk, f.SnapshotReceived)
_RESULTS = (f.OutputReady, f.OutputFailed, f.OutputDenied)
_LIVELY = (f.InputStarted, f.InputDelta, f.InputReady, f.InputRepaired, f.OutputPartial)


class RunState:
    """The cards of one run by ordinal, and the context that new cards inherit."""

    def __init__(self, context: RunContext | None = None, cards: Iterable[Card] = ()) -> None:
        self.context = context or RunContext()
        self.cards: dict[int, Card] = {}
        self._ordinals_by_call: dict[str, list[int]] = {}  # call id -> ordinals, oldest first
        self._waiting: set[int] = set()
        for card in sorted(cards, key=lambda card: card.ordinal):
            self._store(card)
            self.context.calls = max(self.context.calls, card.ordinal)

    def find(self, call_id: str) -> Card | None:
        """Return the newest card of that call id."""
        return self.cards.get(self._find_newest(call_id))

    def list_ordinals(self, call_id: str) -> list[int]:
        """Return the cards of that call id, oldest first."""
        return self._ordinals_by_call.get(call_id, [])

    def find_attempt(self, call_id: str, attempt: int) -> Card | None:
        """Return the newest card of that call id and attempt."""
        cards = (self.cards[ordinal] for ordinal in reversed(self.list_ordinals(call_id)))
        return next((card for card in cards if card.attempt == attempt and not card.removed), None)

    def list_open_cards(self) -> list[Card]:
        """Return the cards that have not ended finally."""
        return [card for card in self.cards.values() if not card.hard and not card.removed]

    @property
    def status(self) -> str:
        """Return the run's status in the contract's words."""
        if self._waiting:
            return "waiting"
        words = {"": "running", "ok": "finished", "not-executed": "finished", "interrupt": "finished"}
        return words.get(self.context.ended, self.context.ended)

    # ------------------------------------------------------------ route and record

    def route(self, fact: f.AnyFact | f.InputChunk, ordinal: int = 0) -> list[Routed]:
        """Return the facts to log for this one; see `routing.Router`."""
        if ordinal and not isinstance(fact, _ROUTED):
            return [(ordinal, fact)]
        return Router(self).route(fact, ordinal)  # one that is kept would be a cycle, which frees no run at once

    def record(self, ordinal: int, fact: f.AnyFact, seq: int = 0) -> tuple[Card | None, bool]:
        """Apply one routed fact; return its new card and whether it applied.

        A fact of the run has no card, so it returns None.
        """
        if not ordinal:
            return None, self.context.apply(fact)
        card = self.cards.get(ordinal) or self._create_card(ordinal, fact, seq)
        after, is_applied = advance(card, fact)
        if type(fact) is f.InputStarted and (fact.reusable or (fact.renews and not after.announced)):
            after = after.replace(**{"announced": True} if fact.renews else {"message_id": fact.message_id})
        if after is not card and seq:
            after.__dict__["seq"] = seq  # not shared until it is stored: no second copy for the log position
        if type(fact) is f.InputDelta and is_applied and after.state is card.state and not self.context.ended:
            self.cards[ordinal] = after
            return after, True
        self._update_context(after, fact, is_applied)
        if after is not card:
            self._store(after)
        return after, is_applied

    def put_back(self, ordinal: int, before: Card | None) -> None:
        """Restore a card as it was before a fact.

        `before`: None if the fact created the card.
        """
        if before is not None:
            self._store(before)
            return
        card = self.cards.pop(ordinal, None)
        if card is None:
            return
        self._waiting.discard(ordinal)
        ordinals = self._ordinals_by_call[card.call_id]
        ordinals.remove(ordinal)
        if not ordinals:
            del self._ordinals_by_call[card.call_id]

    def find_approval_card(self, fact: f.ApprovalRequested) -> Card | None:
        """Return the call of an approval request without a call id."""
        return Router(self).find_approval_card(fact)

    def find_asked_card(self, tool: str, tool_input: Any, question: str = "") -> Card | None:
        """Return the call whose answer also answers this question."""
        return Router(self).find_asked_card(tool, tool_input, question)

    def find_call_in_question(self, tool: str, tool_input: Any) -> Card | None:
        """Return the call that a further question is about."""
        return Router(self).find_call_in_question(tool, tool_input)

    def _update_context(self, card: Card, fact: f.AnyFact, is_applied: bool) -> None:
        """Update the context with what later facts need."""
        context = self.context
        if type(fact) is f.InputReady and fact.alias:
            context.add_alias(fact.alias, fact.call_id)
        if isinstance(fact, f.InputStarted) and fact.chunked:
            context.continue_chunks(fact.lane, fact.call_id)
        elif isinstance(fact, INPUT_FACTS) and (context.chunked or context.paused):
            context.end_chunks(fact.call_id)
        elif isinstance(fact, f.ApprovalAnswered):
            context.held.pop(fact.source_id, None)
            context.held.pop(f"call:{fact.call_id}", None)
        elif isinstance(fact, f.CallRemoved):
            context.drop(fact.call_id)
        if context.continuing and isinstance(fact, _RESULTS):
            context.continuing, context.step = False, context.last_step  # a resumed message, not a replay
        if context.ended and is_applied and isinstance(fact, _LIVELY) and not card.finished:
            context.enter(context.scope)

    # ------------------------------------------------------------ finding the card

    def _find_newest(self, call_id: str) -> int:
        for ordinal in reversed(self._ordinals_by_call.get(call_id, ())):
            if not self.cards[ordinal].removed:
                return ordinal
        return 0

    def _create_card(self, ordinal: int, fact: f.AnyFact, seq: int) -> Card:
        context, lane = self.context, getattr(fact, "lane", "")
        path, parent = context.get_lane(lane)
        context.calls = max(context.calls, ordinal)
        if not context.ended:
            context.enter(context.scope)
        if fact.call_id in context.dropped:
            context.dropped.remove(fact.call_id)
        return Card(
            fact.call_id,
            ordinal=ordinal,
            occurrence=len(self._ordinals_by_call.get(fact.call_id, ())) + 1,
            agent_path=tuple(path),
            parent_call=getattr(fact, "parent_call", "") or parent,
            scope=context.scope,
            lane=lane,
            step=context.step,
            attempt=self._count_attempt(fact),
            gated=self._is_gated(fact),
            per_step=getattr(fact, "per_step", False),
            first_seq=seq,
        )

    def _is_gated(self, fact: f.AnyFact) -> bool:
        """Return whether the new card replaces a decided call that had not ended."""
        before = [self.cards[ordinal] for ordinal in self.list_ordinals(fact.call_id)]
        return bool(before) and not before[-1].hard and (before[-1].gated or before[-1].decision is not None)

    def _count_attempt(self, fact: f.AnyFact) -> int:
        """Return the attempt of a new card: one more than a decided attempt of the same id."""
        attempt: int = getattr(fact, "attempt", 1)
        if getattr(fact, "again", False):
            return attempt
        for ordinal in self._ordinals_by_call.get(fact.call_id, ()):
            if self.cards[ordinal].decision is not None:
                attempt = max(attempt, self.cards[ordinal].attempt + 1)
        return attempt

    def _store(self, card: Card) -> None:
        if card.ordinal not in self.cards:
            self._ordinals_by_call.setdefault(card.call_id, []).append(card.ordinal)
        self.cards[card.ordinal] = card
        if card.unanswered and not card.removed:
            self._waiting.add(card.ordinal)
        else:
            self._waiting.discard(card.ordinal)
