"""Which card an input or a result speaks of, and when it begins another attempt of a judged call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from toolcards.client.common.tool_kinds import DANGER, display_kind
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.identity import contradicts, delta_contradicts, extends, is_frozen, late_text
from toolcards.core.calls.reducer import find_row
from toolcards.core.calls.text_rope import EMPTY
from toolcards.core.calls.transitions import NEXT
from toolcards.core.runs.run_context import RunContext

Routed = tuple[int, f.AnyFact]
CHANGED_ANOMALY = "changed-after-decision"  # the anomaly of a judged call that was given another tool or input
INPUT_FACTS = (f.InputStarted, f.InputReady, f.InputInvalid, f.InputRepaired)
_OUTPUT_FACTS = (f.OutputPartial, f.OutputReady)
_CHUNK_EXEMPT = (f.OutcomeReported, f.LaneStarted)  # may come between chunks without ending the call (AG-UI 1.0)


class CardLookup(Protocol):
    """What the router reads of a board."""

    context: RunContext
    cards: dict[int, Card]

    def find(self, call_id: str) -> Card | None:
        """Return the newest card of that call id."""

    def list_ordinals(self, call_id: str) -> list[int]:
        """Return the cards of that call id, oldest first."""

    def list_open_cards(self) -> list[Card]:
        """Return the cards that have not ended for good."""


class InputRouter:
    """Routes inputs, pieces of them and results; see routing.Router."""

    def __init__(self, board: CardLookup) -> None:
        self._board = board
        self._planned = 0  # new attempts that the fact being routed has begun so far

    def _route_to(self, ordinal: int, fact: Any) -> list[Routed]:
        if isinstance(fact, _OUTPUT_FACTS):
            return self._reported(ordinal, fact)
        if isinstance(fact, f.InputInvalid):
            return [(ordinal, self._resolved(fact))]
        return [
            (ordinal, self._of_kind(fact, self._board.cards.get(ordinal)) if isinstance(fact, INPUT_FACTS) else fact)
        ]

    # ------------------------------------------------------------ finding the card

    def _newest(self, call_id: str) -> int:
        card = self._board.find(call_id)
        return card.ordinal if card is not None else 0

    def _ordinal(self, fact: f.AnyFact) -> int:
        """The card the fact speaks of, by its call id: this step's, else the newest, else a new one; 0 for none."""
        ordinals = self._board.list_ordinals(fact.call_id)
        if self._board.context.dropped and fact.call_id in self._board.context.dropped:
            return self._unborn if isinstance(fact, INPUT_FACTS) else 0  # else a straggler of a reset step
        if not ordinals:
            return 0 if NEXT[find_row(fact), "none"] in {".", "held"} else self._unborn
        if len(ordinals) == 1:
            return ordinals[0]
        in_step = (
            o
            for o in reversed(ordinals)
            if self._board.cards[o].step == self._board.context.step and not self._board.cards[o].removed
        )
        return next(in_step, ordinals[-1])

    @property
    def _unborn(self) -> int:
        """The ordinal that a call not seen before will get."""
        return self._board.context.calls + self._planned + 1

    # ------------------------------------------------------------ inputs

    def _route_start(self, fact: Any) -> list[Routed]:
        """A call id may occur again in a later step (rule 9); its kind is settled here, once."""
        ordinal = self._ordinal(fact)
        card = self._board.cards.get(ordinal)
        superseded: list[Routed] = []
        if card is not None and self._is_another(card, fact):
            if getattr(fact, "report", False) and (card.running or card.finished):  # its result is still of this call
                # agents ask about the command alone, and report its folder, too
                is_extension = extends(card, fact.input)
                return [] if is_extension else [(ordinal, f.AnomalyRecorded(card.call_id, CHANGED_ANOMALY, at=fact.at))]
            text = str(card.segment) if card.segment and not getattr(fact, "has_input", True) else ""
            superseded = self._superseded(card, fact.at)
            ordinal = self._next_attempt()
            if text:  # the input is what streamed since: the new call begins with that
                superseded += self._restarted(ordinal, card, text, fact)
            card = None
        if isinstance(fact, f.InputInvalid):
            return [*superseded, (ordinal, self._resolved(fact))]
        return [*superseded, (ordinal, self._of_kind(fact, card))]

    def _resolved(self, fact: f.InputInvalid) -> f.InputInvalid:
        """Where the run announced its tools, a name that is none of them is the trouble."""
        tools = self._board.context.kinds
        unknown = fact.code == "invalid_input" and tools and fact.tool and fact.tool not in tools
        return replace(fact, code="no_such_tool") if unknown else fact

    def _is_another(self, card: Card, fact: Any) -> bool:
        """Return whether the fact begins another call of the same id: a later step or attempt, or another input."""
        is_later_attempt = getattr(fact, "attempt", 1) > card.attempt
        if (card.hard or card.soft or card.decision is not None) and is_later_attempt:
            return True
        if getattr(fact, "again", False):
            return True
        is_late_failure = card.hard and isinstance(fact, f.InputInvalid)
        if card.decision is not None and not card.removed and not is_late_failure and contradicts(card, fact):
            return True
        # A card that was asked about before its stream told of it may seem to be of the step before.
        is_later_step = getattr(fact, "per_step", False) and card.per_step and self._board.context.step > card.step
        return card.hard and is_later_step

    def _superseded(self, card: Card, timestamp: float) -> list[Routed]:
        """Return what another input means for a judged call: its question ends; what runs already goes on."""
        if not is_frozen(card) or card.soft:
            return []
        routed: list[Routed] = [(card.ordinal, f.AnomalyRecorded(card.call_id, CHANGED_ANOMALY, at=timestamp))]
        if not card.running and not card.preliminary:
            routed.append((card.ordinal, f.CallClosed(card.call_id, "changed", at=timestamp)))
        elif card.waiting and card.approval is not None:  # it runs, and the agent has a question of its own
            routed.append(
                (card.ordinal, f.ApprovalChanged(card.call_id, "superseded", id=card.approval.id, at=timestamp))
            )
        return routed

    def _next_attempt(self) -> int:
        self._planned += 1
        return self._board.context.calls + self._planned

    def _restarted(self, ordinal: int, card: Card, text: str, fact: Any) -> list[Routed]:
        """Return the facts by which a new attempt begins with text that was written under the judged one."""
        tool = getattr(fact, "tool", "") or card.tool.name
        started = f.InputStarted(
            card.call_id, tool, at=fact.at, source=card.tool.source, kind=card.tool.kind, lane=card.lane
        )
        return [(ordinal, self._of_kind(started, None)), (ordinal, f.InputDelta(card.call_id, text, at=fact.at))]

    def _route_delta(self, fact: f.InputDelta, *, reopened: bool = False) -> list[Routed]:
        """Late text of a judged call that cannot be its input begins another attempt."""
        ordinal = self._ordinal(fact)
        card = self._board.cards.get(ordinal)
        if card is None or card.decision is None or not is_frozen(card):
            return [(ordinal, fact)]
        if reopened:
            card = card.replace(segment=EMPTY)
        if not delta_contradicts(card, fact.text):
            return [(ordinal, fact)]
        superseded = self._superseded(card, fact.at)
        return [*superseded, *self._restarted(self._next_attempt(), card, late_text(card) + fact.text, fact)]

    def _of_kind(self, fact: Any, card: Card | None) -> Any:
        """The fact with the kind its card will show: a log must not depend on tomorrow's catalogue."""
        tool = fact.tool or (card.tool.name if card else "")
        announced = self._board.context.kinds.get(tool, "")
        kind_claim = max(fact.kind, announced, key=lambda kind: DANGER.get(kind, -1))
        if not kind_claim and card and card.tool.name == tool:
            kind_claim = card.tool.kind
        source = getattr(fact, "source", "") or (card.tool.source if card else "")
        kind = display_kind(tool, kind_claim, source)
        return replace(fact, kind=kind) if kind != fact.kind else fact

    def _route_chunk(self, fact: f.InputChunk) -> list[Routed]:
        """AG-UI's chunk expansion: the first chunk starts the call, another id ends the one before."""
        open_call = self._board.context.chunked.get(fact.lane, "")
        call_id = fact.call_id or open_call
        if not call_id:
            return []
        routed: list[Routed] = []
        if open_call != call_id:
            routed = self._completed([open_call] if open_call else [], fact.at)
            routed += self._route_start(
                f.InputStarted(
                    call_id, fact.tool, at=fact.at, lane=fact.lane, parent_call=fact.parent_call, chunked=True
                )
            )
        if fact.text:
            delta = f.InputDelta(call_id, fact.text, at=fact.at)
            started = self._board.cards.get(routed[-1][0]) if routed else None
            if routed and (started is None or not is_frozen(started)):
                routed.append((routed[-1][0], delta))
            else:
                routed += self._route_delta(delta, reopened=bool(routed))
        return routed

    def _chunks_ended(self, fact: f.AnyFact) -> list[Routed]:
        """Anything else in a lane completes the call that chunks were writing there; the run's facts, in every lane."""
        if not self._board.context.chunked or isinstance(fact, _CHUNK_EXEMPT):
            return []
        card = self._board.find(fact.call_id) if fact.call_id else None
        lane = card.lane if card else getattr(fact, "lane", "")
        if not lane and not fact.call_id and not isinstance(fact, f.TextDelta):
            return self._completed(self._board.context.chunked.values(), fact.at)
        open_call = self._board.context.chunked.get(lane, "")
        if not open_call or (open_call == fact.call_id and isinstance(fact, (*INPUT_FACTS, f.InputDelta))):
            return []
        return self._completed([open_call], fact.at)

    def _completed(self, call_ids: Iterable[str], timestamp: float) -> list[Routed]:
        whole = [f.InputReady(call_id, at=timestamp) for call_id in call_ids]
        return [routed for ready in whole for routed in self._route_start(ready)]

    # ------------------------------------------------------------ results

    def _route_result(self, fact: f.AnyFact) -> list[Routed]:
        """A result is the running attempt's where several share the call id."""
        ordinals = self._board.list_ordinals(fact.call_id)
        running = next((o for o in reversed(ordinals) if self._board.cards[o].running), 0) if len(ordinals) > 1 else 0
        return self._reported(running or self._ordinal(fact), fact)

    def _reported(self, ordinal: int, fact: f.AnyFact) -> list[Routed]:
        """A call that ran before its permit was claimed ran ungoverned."""
        card = self._board.cards.get(ordinal)
        if card is None or not card.unclaimed or not isinstance(fact, _OUTPUT_FACTS):
            return [(ordinal, fact)]
        return [(ordinal, f.AnomalyRecorded(card.call_id, "ungoverned", at=fact.at)), (ordinal, fact)]
