"""Which card a fact speaks of, and what has to be written down for it.

The router turns a fact as an adapter made it into the facts to write, each with the ordinal of its card (0: the run
itself): it finds occurrences, begins new attempts of judged calls, spreads a run's end over the open cards, and keeps
answers that came before their question. It changes nothing; `Board.record` applies what it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcards.client.common.json_text import same
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.runs.input_routing import INPUT_FACTS, InputRouter, Routed
from toolcards.core.runs.run_end import ends_card, explain_end, list_end_facts

S = ToolCallState


class Router(InputRouter):
    """Reads a board and returns what to write down."""

    def route(self, fact: f.AnyFact | f.InputChunk, ordinal: int = 0) -> list[Routed]:
        """Return the facts to write down for this one, in order, each with its card's ordinal.

        `ordinal` names the card where the caller knows it: two attempts of a call share one call id.
        """
        self._planned = 0
        if ordinal:
            return self._route_to(ordinal, fact)
        if type(fact) is f.InputDelta and not self._board.context.chunked:
            return self._route_delta(fact)
        if isinstance(fact, f.InputChunk):
            return self._route_chunk(fact)
        return [*self._chunks_ended(fact), *self._routed(fact)]

    def _routed(self, fact: f.AnyFact) -> list[Routed]:
        special = _ROUTES.get(type(fact))
        return special(self, fact) if special else [(self._ordinal(fact) if fact.call_id else 0, fact)]

    # ------------------------------------------------------------ approvals

    def _route_asked(self, fact: f.ApprovalRequested) -> list[Routed]:
        if not fact.call_id:
            card = self.find_approval_card(fact)
            if card is None:
                return [(0, fact)]
            fact = replace(fact, call_id=card.call_id)
        ordinal = self._ordinal(fact)
        if fact.tool and ordinal not in self._board.cards:
            fact = self._of_kind(fact, None)
        if fact.automatic and ordinal in self._board.cards and self._board.cards[ordinal].decision:
            return []  # the host repeats what our gate has decided
        early_answer = self._board.context.held.get(fact.source_id) or self._board.context.held.get(
            f"call:{fact.call_id}"
        )
        if not early_answer or not ordinal:
            return [(ordinal, fact)]
        approved, reason, _ = early_answer
        answer = f.ApprovalAnswered(fact.call_id, approved, source_id=fact.source_id, reason=reason, at=fact.at)
        return [(ordinal, fact), (ordinal, answer)]

    def find_approval_card(self, fact: f.ApprovalRequested) -> Card | None:
        """Return the call of a question that names tool and input only: the first such that runs and was not asked for.

        LangGraph can tell one batch twice, the second time with its id: then it names a nameless question.
        """
        candidates = [card for card in self._board.cards.values() if card.tool.name == fact.tool and not card.removed]
        candidates = [card for card in candidates if not card.has_input or same(card.input, fact.input)]
        running = (card for card in candidates if card.state is S.INPUT_AVAILABLE)
        nameless = (card for card in candidates if card.waiting and card.approval and not card.approval.source_id)
        return next(running, None) or (next(nameless, None) if fact.source_id else None)

    def _route_answered(self, fact: f.ApprovalAnswered) -> list[Routed]:
        """An answer finds its question by the wire's id; without one it is held until the question comes."""
        ordinal = self._asked_as(fact.source_id) if fact.source_id else 0
        ordinal = ordinal or self._newest(fact.call_id)
        return [(ordinal, replace(fact, call_id=self._board.cards[ordinal].call_id) if ordinal else fact)]

    def _asked_as(self, source_id: str) -> int:
        for ordinal, card in reversed(self._board.cards.items()):
            if card.approval and source_id in (card.approval.source_id, card.approval.id) and not card.removed:
                return ordinal
        return 0

    def _route_marked(self, fact: f.OutcomeReported) -> list[Routed]:
        ordinal = self._newest(fact.call_id) or self._answered_in(fact.message_id)
        return [(ordinal, replace(fact, call_id=self._board.cards[ordinal].call_id) if ordinal else fact)]

    def _answered_in(self, message_id: str) -> int:
        """The card whose result came in that message of the wire."""
        matches = (o for o, card in reversed(self._board.cards.items()) if card.output_message == message_id)
        return next(matches, 0) if message_id else 0

    def _route_seen(self, fact: f.SnapshotReceived) -> list[Routed]:
        """Snapshots repeat the whole history every turn: what makes no card and corrects none is not written down."""
        ordinal = self._newest(fact.call_id)
        card = self._board.cards.get(ordinal)
        corrects = card is not None and card.state is S.OUTPUT_AVAILABLE and fact.error is not None
        return [(ordinal, fact)] if card and (corrects or not card.hard) else []

    # ------------------------------------------------------------ ends and new turns

    def _route_message(self, fact: f.MessageStarted) -> list[Routed]:
        """A new message with another id supersedes questions that the old one left unanswered."""
        old_id, new_id = self._board.context.message_id, fact.message_id
        routed: list[Routed] = [(0, fact)]
        if old_id and new_id and old_id != new_id:
            routed += [
                (card.ordinal, f.CallClosed(card.call_id, "superseded", at=fact.at))
                for card in self._board.list_open_cards()
                if card.state is S.APPROVAL_REQUESTED and card.approval and card.approval.opener == "agent"
            ]
        return routed

    def _route_reset(self, fact: f.StepReset) -> list[Routed]:
        step, scope = self._board.context.step, self._board.context.scope
        cards = [c for c in self._board.cards.values() if c.step == step and c.scope == scope and not c.removed]
        return [(0, fact), *((card.ordinal, f.CallRemoved(card.call_id, at=fact.at)) for card in cards)]

    def _route_end(self, fact: f.RunEnded) -> list[Routed]:
        """The end of a scope, or of a lane in it, ends its open cards; other scopes go on (rule 20)."""
        if fact.again and not fact.lane and self._board.context.ended:
            return []
        open_cards = [card for card in self._board.list_open_cards() if ends_card(card, fact, self._board.context)]
        if fact.if_open and open_cards:
            fact = replace(fact, outcome=fact.if_open)
        end = explain_end(fact, self._board.context)
        routed: list[Routed] = [
            (card.ordinal, part) for card in open_cards for part in list_end_facts(card, end, self._board.context)
        ]
        return [*routed, (0, end)]

    def _route_closed(self, fact: f.CallClosed) -> list[Routed]:
        """Without a call: every call of the run's own lane that is open, once."""
        if fact.call_id:
            return [(self._ordinal(fact), fact)]
        open_calls = (card for card in self._board.list_open_cards() if not card.lane and not card.soft)
        return [(card.ordinal, replace(fact, call_id=card.call_id)) for card in open_calls]


def _route_to_run(router: Router, fact: f.AnyFact) -> list[Routed]:
    return [(0, fact)]


_ROUTES: dict[type, Callable[[Router, Any], list[Routed]]] = {
    **dict.fromkeys(INPUT_FACTS, Router._route_start),
    **dict.fromkeys(f.RUN_FACTS, _route_to_run),
    f.ApprovalRequested: Router._route_asked,
    f.ApprovalAnswered: Router._route_answered,
    f.OutputPartial: Router._route_result,
    f.OutputReady: Router._route_result,
    f.OutputFailed: Router._route_result,
    f.OutcomeReported: Router._route_marked,
    f.SnapshotReceived: Router._route_seen,
    f.CallClosed: Router._route_closed,
    f.MessageStarted: Router._route_message,
    f.StepReset: Router._route_reset,
    f.RunEnded: Router._route_end,
}
