"""Routing: find the card of a fact, and the facts to log for it.

The router turns a fact from an adapter into the facts to log, each with the ordinal of its card (0: the run
itself): it finds occurrences, starts new attempts of decided calls, spreads a run's end over the open cards, and keeps
answers that came before their request. It has no side effects; `RunState.record` applies its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from toolcards.client.common.json_text import is_same_json
from toolcards.client.common.tool_results import add_request, is_description, read_result
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.reducer.approval_handlers import list_former_ids
from toolcards.core.runs.input_routing import INPUT_FACTS, InputRouter, Routed, is_further_question
from toolcards.core.runs.run_end import (
    MOVED_ON,
    ends_card,
    explain_end,
    is_agents_question,
    is_repeated_end,
    list_end_facts,
    mark_failed,
    owes_answer,
)

S = ToolCallState


class Router(InputRouter):
    """Reads the state of a run and returns the facts to log."""

    def route(self, fact: f.AnyFact | f.InputChunk, ordinal: int = 0) -> list[Routed]:
        """Return the facts to log for this one, with their ordinals.

        `ordinal` names the card if the caller knows it: attempts of a call share one call id.
        """
        self._planned = 0
        if self._state.context.aliases and not ordinal and fact.call_id in self._state.context.aliases:
            fact = f.revise(fact, call_id=self._state.context.aliases[fact.call_id])
        if isinstance(fact, (f.OutputReady, f.SnapshotReceived)):
            fact = _read_output(fact)
        if ordinal:
            return self._route_to(ordinal, fact)
        if type(fact) is f.InputDelta and not (self._state.context.chunked or self._state.context.paused):
            return self._route_delta(fact)
        if isinstance(fact, f.InputChunk):
            return self._route_chunk(fact)
        return [*self._end_chunks(fact), *self._route_single(fact)]

    def _route_single(self, fact: f.AnyFact) -> list[Routed]:
        special = _ROUTES.get(type(fact))
        return special(self, fact) if special else [(self._find_ordinal(fact) if fact.call_id else 0, fact)]

    def _route_ready(self, fact: f.InputReady) -> list[Routed]:
        """Route a complete input; one of a provider may continue a question under another id."""
        if fact.past and self._state.list_ordinals(fact.call_id):
            return []
        if fact.described and (card := self._state.find(fact.call_id)):
            if not _takes_description(card):
                return []
            fact = f.revise(fact, input=add_request(card.input, fact.input) if card.has_input else fact.input)
        question = self._find_continued(fact) if fact.provider_executed and fact.has_input else None
        if question is None:
            return self._route_start(fact)
        own_card = self._state.find(fact.call_id)
        removal = [(own_card.ordinal, f.CallRemoved(fact.call_id, at=fact.at))] if own_card else []
        return [*removal, (question.ordinal, f.revise(fact, call_id=question.call_id, alias=fact.call_id))]

    def _find_continued(self, fact: f.InputReady) -> Card | None:
        """Return the provider's call that waits for its approval and that this input repeats under a new id."""
        own_card = self._state.find(fact.call_id)
        if own_card is not None and own_card.state is not S.INPUT_STREAMING:
            return None
        cards = (card for card in reversed(self._state.cards.values()) if card.tool.name == fact.tool)
        candidates = (
            card for card in cards if card.provider_executed and not card.removed and card.call_id != fact.call_id
        )
        waiting = (card for card in candidates if is_agents_question(card) or card.state is S.APPROVAL_RESPONDED)
        return next((card for card in waiting if card.has_input and is_same_json(card.input, fact.input)), None)

    # ------------------------------------------------------------ approvals

    def _route_approval_request(self, fact: f.ApprovalRequested) -> list[Routed]:
        if not fact.call_id:
            card = self.find_approval_card(fact)
            if card is None:
                return [(0, fact)]
            fact = replace(fact, call_id=card.call_id)
        ordinal = self._find_ordinal(fact)
        if fact.tool and ordinal not in self._state.cards:
            fact = self._set_kind(fact, None)
        card = self._state.cards.get(ordinal)
        if card is not None and fact.automatic and card.decision:
            return []  # the host repeats the decision of our gate
        if card is not None and (former_ids := list_former_ids(card, fact)):
            fact = f.revise(fact, former_ids=former_ids)
        early_answer = self._state.context.held.get(fact.source_id) or self._state.context.held.get(
            f"call:{fact.call_id}"
        )
        if not early_answer or not ordinal:
            return [(ordinal, fact)]
        is_approved, reason, _ = early_answer
        answer = f.ApprovalAnswered(fact.call_id, is_approved, source_id=fact.source_id, reason=reason, at=fact.at)
        return [(ordinal, fact), (ordinal, answer)]

    def find_approval_card(self, fact: f.ApprovalRequested) -> Card | None:
        """Return the first running call that matches an approval request.

        LangGraph can send one batch twice, the second time with its id: then an approval without an id is meant.
        """
        candidates = [card for card in self._state.cards.values() if card.tool.name == fact.tool and not card.removed]
        candidates = [card for card in candidates if not card.has_input or is_same_json(card.input, fact.input)]
        running = (card for card in candidates if card.state is S.INPUT_AVAILABLE)
        nameless = (card for card in candidates if card.waiting and card.approval and not card.approval.source_id)
        return next(running, None) or (next(nameless, None) if fact.source_id else None)

    def list_same_calls(self, tool: str, tool_input: Any) -> Iterator[Card]:
        """Yield the calls with that tool and input, newest first."""
        for card in reversed(self._state.cards.values()):
            if card.tool.name == tool and not card.removed and is_same_json(card.input, tool_input):
                yield card

    def find_asked_card(self, tool: str, tool_input: Any, question: str = "") -> Card | None:
        """Return the newest same call whose answer also answers this question.

        `question`: the wire's id of a question about more than the call itself. A denial answers every question.
        """
        for card in self.list_same_calls(tool, tool_input):
            asked_question = card.approval.source_id if card.approval else ""
            if asked_question == question or (not asked_question and card.state is S.OUTPUT_DENIED):
                return card
            if not is_further_question(card):
                return None
        return None

    def find_call_in_question(self, tool: str, tool_input: Any) -> Card | None:
        """Return the newest same call that has not ended, or None."""
        calls = (card for card in self.list_same_calls(tool, tool_input) if not is_further_question(card))
        newest = next(calls, None)
        return newest if newest and not newest.finished else None

    def _route_answer(self, fact: f.ApprovalAnswered) -> list[Routed]:
        """Route an answer by the wire's id; an early answer is held until its request comes."""
        ordinal = self._find_by_approval(fact.source_id) if fact.source_id else 0
        ordinal = ordinal or self._find_newest(fact.call_id)
        return [(ordinal, replace(fact, call_id=self._state.cards[ordinal].call_id) if ordinal else fact)]

    def _find_by_approval(self, source_id: str) -> int:
        for ordinal, card in reversed(self._state.cards.items()):
            approval = card.approval
            if approval and not card.removed and source_id in (approval.source_id, approval.id, *approval.former_ids):
                return ordinal
        return 0

    def _route_outcome(self, fact: f.OutcomeReported) -> list[Routed]:
        ordinal = self._find_newest(fact.call_id) or self._find_by_message(fact.message_id)
        return [(ordinal, replace(fact, call_id=self._state.cards[ordinal].call_id) if ordinal else fact)]

    def _find_by_message(self, message_id: str) -> int:
        """Return the ordinal of the card whose result is in this message."""
        matches = (o for o, card in reversed(self._state.cards.items()) if card.output_message == message_id)
        return next(matches, 0) if message_id else 0

    def _route_snapshot(self, fact: f.SnapshotReceived) -> list[Routed]:
        """Route a snapshot; each repeats the history, so results that change no card are dropped."""
        ordinal = self._find_newest(fact.call_id)
        card = self._state.cards.get(ordinal)
        corrects = card is not None and card.state is S.OUTPUT_AVAILABLE and fact.error is not None
        return [(ordinal, fact)] if card and (corrects or not card.hard) else []

    # ------------------------------------------------------------ ends and new turns

    def _route_message(self, fact: f.MessageStarted) -> list[Routed]:
        """Supersede open approvals of the agent when a message with another id starts."""
        old_id, new_id = self._state.context.message_id, fact.message_id
        routed_facts: list[Routed] = [(0, fact)]
        if old_id and new_id and old_id != new_id:
            routed_facts += [
                (
                    card.ordinal,
                    f.CallClosed(card.call_id, "superseded", MOVED_ON if card.awaiting_client else "", fact.at),
                )
                for card in self._state.list_open_cards()
                if owes_answer(card)
            ]
        return routed_facts

    def _route_lane(self, fact: f.LaneStarted) -> list[Routed]:
        """Drop a sub-agent that is known by this name: programs name it with each of its calls."""
        path = self._state.context.lanes.get(fact.lane, [[""]])[0]
        is_known = path[-1] == fact.name and not (fact.parent_call or fact.parent_lane)
        return [] if is_known else [(0, fact)]

    def _route_reset(self, fact: f.StepReset) -> list[Routed]:
        step, scope = self._state.context.step, self._state.context.scope
        cards = [c for c in self._state.cards.values() if c.step == step and c.scope == scope and not c.removed]
        return [(0, fact), *((card.ordinal, f.CallRemoved(card.call_id, at=fact.at)) for card in cards)]

    def _route_end(self, fact: f.RunEnded) -> list[Routed]:
        """End the open cards of a scope or lane; other scopes continue (rule 20)."""
        if is_repeated_end(fact, self._state.context):
            return []
        if fact.or_current:
            is_open = fact.scope in self._state.context.scopes
            fact = replace(fact, scope=fact.scope if is_open else "", or_current=False)
        open_cards = [card for card in self._state.list_open_cards() if ends_card(card, fact, self._state.context)]
        if fact.if_open and open_cards:
            fact = replace(fact, outcome=fact.if_open)
        end = explain_end(fact, self._state.context)
        routed_facts: list[Routed] = [
            (card.ordinal, part) for card in open_cards for part in list_end_facts(card, end, self._state.context)
        ]
        if end.interrupted_output:
            routed_facts += self._mark_interrupted(end)
            end = replace(end, interrupted_output="")
        return [*routed_facts, (0, mark_failed(end, self._state.context))]

    def _mark_interrupted(self, end: f.RunEnded) -> list[Routed]:
        """Return the facts that mark the results which an aborted run wrote for stopped calls."""
        scope = end.scope or self._state.context.scope
        cards = [
            card for card in self._state.cards.values() if card.scope == scope and card.state is S.OUTPUT_AVAILABLE
        ]
        return [
            (card.ordinal, f.OutcomeReported(card.call_id, "interrupted", at=end.at))
            for card in cards
            if card.hard and card.output == end.interrupted_output
        ]

    def _route_close(self, fact: f.CallClosed) -> list[Routed]:
        """Route a close; without a call id it closes every open call of the run's own lane."""
        if fact.call_id:
            card = self._state.cards.get(self._find_ordinal(fact))
            is_history = fact.how == "superseded" and (card is None or not owes_answer(card))
            return [] if is_history else [(card.ordinal if card else 0, fact)]
        open_calls = (card for card in self._state.list_open_cards() if not card.lane and not card.soft)
        return [(card.ordinal, replace(fact, call_id=card.call_id)) for card in open_calls]


def _takes_description(card: Card) -> bool:
    """Return whether no input of the call is known but what its agent shows of it."""
    is_open = card.decision is None and not card.finished
    return is_open and (not card.has_input or is_description(card.input))


def _read_output(fact: f.OutputReady | f.SnapshotReceived) -> f.AnyFact:
    """Return the fact with the output as it is shown; a result that reports an error is a failure."""
    if isinstance(fact, f.SnapshotReceived):
        return fact if isinstance(fact.text, (str, type(None))) else f.revise(fact, text=read_result(fact.text).output)
    result = read_result(fact.output)
    if result.error is not None:
        return f.OutputFailed(fact.call_id, result.error, "tool_reported", at=fact.at, output=result.output)
    return fact if result.output is fact.output else f.revise(fact, output=result.output)


def _route_to_run(router: Router, fact: f.AnyFact) -> list[Routed]:
    return [(0, fact)]


_ROUTES: dict[type, Callable[[Router, Any], list[Routed]]] = {
    **dict.fromkeys(INPUT_FACTS, Router._route_start),
    **dict.fromkeys(f.RUN_FACTS, _route_to_run),
    f.InputReady: Router._route_ready,
    f.ApprovalRequested: Router._route_approval_request,
    f.ApprovalAnswered: Router._route_answer,
    f.OutputPartial: Router._route_result,
    f.OutputReady: Router._route_result,
    f.OutputFailed: Router._route_result,
    f.OutputDenied: Router._route_result,
    f.OutcomeReported: Router._route_outcome,
    f.SnapshotReceived: Router._route_snapshot,
    f.CallClosed: Router._route_close,
    f.LaneStarted: Router._route_lane,
    f.MessageStarted: Router._route_message,
    f.StepReset: Router._route_reset,
    f.RunEnded: Router._route_end,
}
