"""Routing of inputs and results: find their card, or start another attempt of a decided call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from toolcards.client.common.tool_kinds import DANGER, display_kind
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.identity import (
    contradicts,
    delta_contradicts,
    extends,
    is_frozen,
    is_nested_or_reused,
    late_text,
)
from toolcards.core.calls.reducer import STREAMING, find_row, outcome_handlers
from toolcards.core.calls.reducer.input_handlers import read_streamed_input
from toolcards.core.calls.transitions import NEXT
from toolcards.core.runs.run_context import CardLookup
from toolcards.core.text.text_rope import EMPTY

Routed = tuple[int, f.AnyFact]
CHANGED_ANOMALY = "changed-after-decision"  # the anomaly of a decided call that got another tool or input
INPUT_FACTS = (f.InputStarted, f.InputReady, f.InputInvalid, f.InputRepaired)
_OUTPUT_FACTS = (f.OutputPartial, f.OutputReady)
_CHUNK_EXEMPT = (f.OutcomeReported, f.LaneStarted)  # may come between chunks without ending the call (AG-UI 1.0)


def is_further_question(card: Card) -> bool:
    """Return whether the card is only a further question about another call."""
    ask = card.approval
    return bool(card.parent_call and ask and ask.source_id and ask.opener == "agent" and ask.terms.get("about_parent"))


class InputRouter:
    """Routes inputs, pieces of inputs and results; see `routing.Router`."""

    def __init__(self, state: CardLookup) -> None:
        self._state = state
        self._planned = 0  # attempts that the current fact has started

    def _route_to(self, ordinal: int, fact: Any) -> list[Routed]:
        if isinstance(fact, _OUTPUT_FACTS):
            return self._route_output(ordinal, fact)
        if isinstance(fact, f.InputInvalid):
            return [(ordinal, self._resolve_invalid(fact))]
        is_input = isinstance(fact, INPUT_FACTS)
        return [(ordinal, self._set_kind(fact, self._state.cards.get(ordinal)) if is_input else fact)]

    # ------------------------------------------------------------ finding the card

    def _find_newest(self, call_id: str) -> int:
        card = self._state.find(call_id)
        return card.ordinal if card is not None else 0

    def _find_ordinal(self, fact: f.AnyFact) -> int:
        """Return the fact's card by call id: this step's, else the newest, else a new one; 0 for none."""
        ordinals = self._state.list_ordinals(fact.call_id)
        if self._state.context.dropped and fact.call_id in self._state.context.dropped:
            return self._new_ordinal if isinstance(fact, INPUT_FACTS) else 0  # else a late fact of a reset step
        if not ordinals:
            return 0 if NEXT[find_row(fact), "none"] in {".", "held"} else self._new_ordinal
        if len(ordinals) == 1:
            return ordinals[0]
        if isinstance(fact, f.InputStarted) and fact.message_id:
            announced_ordinals = (o for o in reversed(ordinals) if self._state.cards[o].message_id == fact.message_id)
            return next(announced_ordinals, ordinals[-1])
        cards = [self._state.cards[ordinal] for ordinal in reversed(ordinals)]
        in_step = (card.ordinal for card in cards if card.step == self._state.context.step and not card.removed)
        return next(in_step, ordinals[-1])

    def _find_written(self, fact: f.AnyFact) -> int:
        """Return the fact's card, or an outer one if only its input is not complete."""
        ordinals = self._state.list_ordinals(fact.call_id)
        cards = [self._state.cards[ordinal] for ordinal in reversed(ordinals)] if len(ordinals) > 1 else []
        open_ordinals = (card.ordinal for card in cards if card.state is STREAMING and not card.removed)
        return next(open_ordinals, 0) or self._find_ordinal(fact)

    @property
    def _new_ordinal(self) -> int:
        """Return the ordinal of the next new call."""
        return self._state.context.calls + self._planned + 1

    # ------------------------------------------------------------ inputs

    def _route_start(self, fact: Any) -> list[Routed]:
        """Route an input; a later step may reuse the call id (rule 9). Sets the kind."""
        is_nameless = isinstance(fact, f.InputReady) and not (fact.tool or fact.report)
        ordinal = self._find_written(fact) if is_nameless else self._find_ordinal(fact)
        card = self._state.cards.get(ordinal)
        if card is not None and is_nested_or_reused(card, fact):
            ordinal = self._find_same_call(fact) or ordinal
            card = self._state.cards[ordinal]
        superseded_facts: list[Routed] = []
        if card is not None and self._is_another(card, fact):
            if getattr(fact, "report", False) and card.decision is None:
                return [(ordinal, fact)]
            if getattr(fact, "report", False) and (card.running or card.finished):  # its result belongs to this call
                # agents ask about the command alone, and report its folder, too
                is_extension = extends(card, fact.input)
                return [] if is_extension else [(ordinal, f.AnomalyRecorded(card.call_id, CHANGED_ANOMALY, at=fact.at))]
            text = str(card.segment) if card.segment and not getattr(fact, "has_input", True) else ""
            superseded_facts = self._supersede(card, fact) or self._complete_written(card, fact.at)
            ordinal = self._next_attempt()
            if text:  # the input is the text streamed since: the new call starts with it
                superseded_facts += self._restart(ordinal, card, text, fact)
            fact, card = fact if fact.tool else f.revise(fact, tool=card.tool.name), None
        is_invalid = isinstance(fact, f.InputInvalid)
        return [*superseded_facts, (ordinal, self._resolve_invalid(fact) if is_invalid else self._set_kind(fact, card))]

    def _find_same_call(self, fact: Any) -> int:
        """Return an earlier call of the id that the fact repeats, 0 for none."""
        is_new_start = isinstance(fact, f.InputStarted) and not self._state.context.replaying  # repeats no ended call
        cards = (self._state.cards[ordinal] for ordinal in reversed(self._state.list_ordinals(fact.call_id)))
        same_cards = (
            card for card in cards if not is_nested_or_reused(card, fact) and not (is_new_start and card.hard)
        )
        return next((card.ordinal for card in same_cards), 0)

    def _resolve_invalid(self, fact: f.InputInvalid) -> f.InputInvalid:
        """Set the code to no_such_tool if the run's announced tools lack the name."""
        tools = self._state.context.kinds
        unknown = fact.code == "invalid_input" and tools and fact.tool and fact.tool not in tools
        return replace(fact, code="no_such_tool") if unknown else fact

    def _is_another(self, card: Card, fact: Any) -> bool:
        """Return whether the fact starts another call of the same id: a later step, attempt or input."""
        is_later_attempt = getattr(fact, "attempt", 1) > card.attempt
        if (card.hard or card.soft or card.decision is not None) and is_later_attempt:
            return True
        is_begun_again = getattr(fact, "renews", False) and card.announced and card.hard
        if getattr(fact, "again", False) or (is_begun_again and not self._state.context.replaying):
            return True
        if getattr(fact, "reusable", False) and card.message_id is not None and self._is_reused(card, fact):
            return True
        is_late_failure = card.hard and isinstance(fact, f.InputInvalid)
        if card.decision is not None and not card.removed and not is_late_failure and contradicts(card, fact):
            return True
        if card.decision is None and is_nested_or_reused(card, fact):
            return True
        # A card whose approval came before its stream may have the number of the previous step.
        is_later_step = getattr(fact, "per_step", False) and card.per_step and self._state.context.step > card.step
        return card.hard and is_later_step

    def _is_reused(self, card: Card, fact: f.InputStarted) -> bool:
        """Return whether an announcement of an ended call is another call, not a replay of its stream."""
        is_new_message = card.message_id and fact.message_id and card.message_id != fact.message_id
        if card.message_id and fact.message_id and (is_new_message or card.scope != self._state.context.scope):
            return bool(is_new_message) and card.finished
        return card.hard and not self._state.context.replaying

    def _supersede(self, card: Card, fact: Any) -> list[Routed]:
        """Return the facts that end a decided call with another input; a running call continues."""
        timestamp = fact.at
        if not is_frozen(card) or card.soft or (card.running and getattr(fact, "asks", False)):
            return []
        routed_facts: list[Routed] = [(card.ordinal, f.AnomalyRecorded(card.call_id, CHANGED_ANOMALY, at=timestamp))]
        if not card.running and not card.preliminary:
            routed_facts.append((card.ordinal, f.CallClosed(card.call_id, "changed", at=timestamp)))
        elif card.waiting and card.approval is not None:  # it is running, and the agent opened its own approval
            routed_facts.append(
                (card.ordinal, f.ApprovalChanged(card.call_id, "superseded", id=card.approval.id, at=timestamp))
            )
        return routed_facts

    def _complete_written(self, card: Card, timestamp: float) -> list[Routed]:
        """Return the end of an input that is whole: its result came, or another call begins under its id."""
        is_whole = card.state is STREAMING and bool(card.text) and read_streamed_input(card)[1]
        return [(card.ordinal, f.InputReady(card.call_id, at=timestamp))] if is_whole else []

    def _next_attempt(self) -> int:
        self._planned += 1
        return self._state.context.calls + self._planned

    def _restart(self, ordinal: int, card: Card, text: str, fact: Any) -> list[Routed]:
        """Return the facts that start a new attempt with text streamed for the decided one."""
        tool = getattr(fact, "tool", "") or card.tool.name
        start_fact = f.InputStarted(
            card.call_id, tool, at=fact.at, source=card.tool.source, kind=card.tool.kind, lane=card.lane
        )
        return [(ordinal, self._set_kind(start_fact, None)), (ordinal, f.InputDelta(card.call_id, text, at=fact.at))]

    def _route_delta(self, fact: f.InputDelta, *, is_reopened: bool = False) -> list[Routed]:
        """Route a piece of input; text that contradicts a decided call starts another attempt."""
        ordinal = self._find_written(fact)
        card = self._state.cards.get(ordinal)
        if card is None or card.decision is None or not is_frozen(card):
            return [(ordinal, fact)]
        if is_reopened:
            card = card.replace(segment=EMPTY)
        if not delta_contradicts(card, fact.text):
            return [(ordinal, fact)]
        superseded_facts = self._supersede(card, fact)
        return [*superseded_facts, *self._restart(self._next_attempt(), card, late_text(card) + fact.text, fact)]

    def _set_kind(self, fact: Any, card: Card | None) -> Any:
        """Return the fact with its card's kind, so that the log does not depend on a later catalog."""
        tool = fact.tool or (card.tool.name if card else "")
        announced_kind = self._state.context.kinds.get(tool, "")
        kind_claim = announced_kind if DANGER.get(announced_kind, -1) > DANGER.get(fact.kind, -1) else fact.kind
        if not kind_claim and card and card.tool.name == tool:
            kind_claim = card.tool.kind
        source = getattr(fact, "source", "") or (card.tool.source if card else "")
        kind = display_kind(tool, kind_claim, source)
        return fact if kind == fact.kind else f.revise(fact, kind=kind)

    def _route_chunk(self, fact: f.InputChunk) -> list[Routed]:
        """Expand an AG-UI chunk: the first chunk starts the call, another id or tool ends the previous one."""
        open_call = self._state.context.chunked.get(fact.lane, "")
        call_id = fact.call_id or open_call
        if not call_id:
            return []
        routed_facts: list[Routed] = []
        card = self._state.find(call_id)
        if open_call != call_id or (card is not None and fact.tool not in {"", card.tool.name}):
            routed_facts = self._complete_calls([open_call] if self._is_whole(open_call) else [], fact.at)
            start_fact = f.InputStarted(
                call_id, fact.tool, at=fact.at, lane=fact.lane, parent_call=fact.parent_call, chunked=True,
                reusable=True, message_id=fact.message_id, resumes=call_id in self._state.context.paused,
            )  # fmt: skip
            routed_facts += self._route_start(start_fact)
        if fact.text:
            delta = f.InputDelta(call_id, fact.text, at=fact.at)
            started_card = self._state.cards.get(routed_facts[-1][0]) if routed_facts else None
            if routed_facts and (started_card is None or not is_frozen(started_card)):
                routed_facts.append((routed_facts[-1][0], delta))
            else:
                routed_facts += self._route_delta(delta, is_reopened=bool(routed_facts))
        return routed_facts

    def _end_chunks(self, fact: f.AnyFact) -> list[Routed]:
        """Complete the chunked call of the fact's lane if its text is whole, and the fact's own call in any case.

        A fact of the run completes those of all lanes.
        """
        context = self._state.context
        if not (context.chunked or context.paused) or isinstance(fact, _CHUNK_EXEMPT):
            return []
        card = self._state.find(fact.call_id) if fact.call_id else None
        lane = card.lane if card else getattr(fact, "lane", "")
        if not lane and not fact.call_id and not isinstance(fact, f.TextDelta):
            return self._complete_calls([*context.paused, *context.chunked.values()], fact.at)
        is_input = isinstance(fact, (*INPUT_FACTS, f.InputDelta))
        open_call = context.chunked.get(lane, "")
        is_own = fact.call_id and fact.call_id in (open_call, *context.paused)
        calls = [open_call] if open_call and open_call != fact.call_id and self._is_whole(open_call) else []
        return self._complete_calls(calls + ([fact.call_id] if is_own and not is_input else []), fact.at)

    def _is_whole(self, call_id: str) -> bool:
        """Return whether the streamed input of a call is complete JSON, or empty."""
        card = self._state.find(call_id) if call_id else None
        return card is not None and (not card.text or read_streamed_input(card)[1])

    def _complete_calls(self, call_ids: Iterable[str], timestamp: float) -> list[Routed]:
        ready_facts = [f.InputReady(call_id, at=timestamp) for call_id in call_ids]
        return [routed_fact for ready in ready_facts for routed_fact in self._route_start(ready)]

    # ------------------------------------------------------------ results

    def _route_result(self, fact: f.AnyFact) -> list[Routed]:
        """Route a result; it also ends the further questions about its call."""
        routed_facts = self._route_own_result(fact)
        card = self._state.cards.get(routed_facts[-1][0])
        routed_facts += self._complete_written(card, fact.at) if card is not None else []
        if isinstance(fact, f.OutputPartial):
            return routed_facts
        questions = [card for card in self._state.list_open_cards() if card.parent_call == fact.call_id]
        return routed_facts + [
            (card.ordinal, replace(fact, call_id=card.call_id)) for card in questions if is_further_question(card)
        ]

    def _route_own_result(self, fact: Any) -> list[Routed]:
        """Route a result; among several attempts it belongs to the running one."""
        ordinals, message_id = self._state.list_ordinals(fact.call_id), getattr(fact, "message_id", "")
        if len(ordinals) > 1 and message_id:  # a replay repeats the messages of earlier results
            earlier = next((o for o in ordinals if self._state.cards[o].output_message == message_id), 0)
            if earlier:
                return [(earlier, fact)]
        running = next((o for o in reversed(ordinals) if self._state.cards[o].running), 0) if len(ordinals) > 1 else 0
        ordinal = running or self._find_open(fact) or self._find_ordinal(fact)
        return self._route_output(ordinal, outcome_handlers.note_answer(self._state.cards.get(ordinal), fact))

    def _find_open(self, fact: f.AnyFact) -> int:
        """Return the newest call of the id and step that has no result yet: the inner one of nested calls."""
        newest = self._state.cards.get(self._find_ordinal(fact))
        if newest is None or not newest.hard:
            return 0
        cards = (self._state.cards[ordinal] for ordinal in reversed(self._state.list_ordinals(fact.call_id)))
        return next((c.ordinal for c in cards if not (c.hard or c.removed) and c.step == newest.step), 0)

    def _route_output(self, ordinal: int, fact: f.AnyFact) -> list[Routed]:
        """Add an anomaly if the call ran before its permit was claimed."""
        card = self._state.cards.get(ordinal)
        if card is None or not card.unclaimed or not isinstance(fact, _OUTPUT_FACTS):
            return [(ordinal, fact)]
        return [(ordinal, f.AnomalyRecorded(card.call_id, "ungoverned", at=fact.at)), (ordinal, fact)]
