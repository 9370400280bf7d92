"""The board of one run: all its cards, and which card a fact speaks of.

`route` turns a fact as an adapter made it into the facts to write down, each with the ordinal of its
card (0: the run itself): it finds occurrences, spreads a run's end over the open cards, keeps answers
that came before their question. It changes nothing. `record` applies one written fact. A board rebuilt
from a log by `record` alone equals the board that wrote it. The two stand in one file, since every rule of
`route` has its other half in `record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from toolcards.client.common.catalogue import display_kind
from toolcards.client.common.jsontext import same
from toolcards.core import facts as f
from toolcards.core.closing import closing, ends, explained
from toolcards.core.context import Context
from toolcards.core.lifecycle import Card, ToolCallState
from toolcards.core.reducer import advance, row
from toolcards.core.transitions import NEXT

__all__ = ["Board", "Context", "Routed"]

S = ToolCallState
Routed = tuple[int, f.AnyFact]
_RESULTS = (f.OutputReady, f.OutputFailed, f.OutputDenied)
_LIVELY = (f.InputStarted, f.InputDelta, f.InputReady, f.InputRepaired, f.OutputPartial)
_STARTS = (f.InputStarted, f.InputReady, f.InputInvalid, f.InputRepaired)
_CHUNK_EXEMPT = (f.OutcomeMarked, f.LaneStarted)  # may come between chunks without ending the call (AG-UI 1.0)


class Board:
    """The cards of one run, by ordinal, and the context that new ones are born into."""

    def __init__(self, context: Context | None = None, cards: Iterable[Card] = ()) -> None:
        self.context = context or Context()
        self.cards: dict[int, Card] = {}
        self._of: dict[str, list[int]] = {}  # call id -> ordinals, oldest first
        self._waiting: set[int] = set()
        for card in sorted(cards, key=lambda card: card.ordinal):
            self._put(card)
            self.context.calls = max(self.context.calls, card.ordinal)

    def find(self, call_id: str) -> Card | None:
        """Return the newest card of that call id."""
        return self.cards.get(self._newest(call_id))

    def open_cards(self) -> list[Card]:
        """Return the cards that have not ended for good."""
        return [card for card in self.cards.values() if not card.hard and not card.removed]

    @property
    def status(self) -> str:
        """Return the run's status in the contract's words."""
        if self._waiting:
            return "waiting"
        words = {"": "running", "ok": "finished", "not-executed": "finished", "interrupt": "finished"}
        return words.get(self.context.ended, self.context.ended)

    # ------------------------------------------------------------ the two doors

    def route(self, fact: f.AnyFact | f.InputChunk) -> list[Routed]:
        """Return the facts to write down for this one, in order, each with its card's ordinal."""
        if type(fact) is f.InputDelta and not self.context.chunked:
            return [(self._ordinal(fact), fact)]
        if isinstance(fact, f.InputChunk):
            return self._route_chunk(fact)
        return [*self._chunks_ended(fact), *self._routed(fact)]

    def record(self, ordinal: int, fact: f.AnyFact, seq: int = 0) -> tuple[Card | None, bool]:
        """Apply one routed fact; return its card afterwards (None for the run itself) and whether it was applied."""
        if not ordinal:
            return None, self.context.live_through(fact)
        card = self.cards.get(ordinal) or self._born(ordinal, fact, seq)
        after, applied = advance(card, fact)
        if after is not card and seq:
            after.__dict__["seq"] = seq  # ours alone until put: no second copy for the log position
        if type(fact) is f.InputDelta and applied and after.state is card.state and not self.context.ended:
            self.cards[ordinal] = after
            return after, True
        self._remember(after, fact, applied)
        if after is not card:
            self._put(after)
        return after, applied

    def _routed(self, fact: f.AnyFact) -> list[Routed]:
        special = _ROUTES.get(type(fact))
        return special(self, fact) if special else [(self._ordinal(fact) if fact.call_id else 0, fact)]

    def _remember(self, card: Card, fact: f.AnyFact, applied: bool) -> None:
        """What the run must know of a call's fact for facts yet to come."""
        context = self.context
        if isinstance(fact, f.InputStarted) and fact.chunked:
            context.chunked[fact.lane] = fact.call_id
        elif isinstance(fact, _STARTS) and context.chunked:
            context.chunked = {lane: call for lane, call in context.chunked.items() if call != fact.call_id}
        elif isinstance(fact, f.ApprovalAnswered):
            context.held.pop(fact.source_id, None)
            context.held.pop(f"call:{fact.call_id}", None)
        elif isinstance(fact, f.Removed):
            context.drop(fact.call_id)
        if context.continuing and isinstance(fact, _RESULTS):
            context.continuing, context.step = False, context.last_step  # a resumed message, not a replay
        if context.ended and applied and isinstance(fact, _LIVELY) and not card.finished:
            context.enter(context.scope)

    # ------------------------------------------------------------ finding the card

    def _newest(self, call_id: str) -> int:
        ordinals = self._of.get(call_id, ())
        return next((o for o in reversed(ordinals) if not self.cards[o].removed), 0)

    def _ordinal(self, fact: f.AnyFact) -> int:
        """The card the fact speaks of, by its call id: this step's, else the newest, else a new one; 0 for none."""
        ordinals = self._of.get(fact.call_id)
        if self.context.dropped and fact.call_id in self.context.dropped:
            return self.context.calls + 1 if isinstance(fact, _STARTS) else 0  # else a straggler of a reset step
        if not ordinals:
            return 0 if NEXT[row(fact), "none"] in {".", "held"} else self.context.calls + 1
        if len(ordinals) == 1:
            return ordinals[0]
        here = (o for o in reversed(ordinals) if self.cards[o].step == self.context.step and not self.cards[o].removed)
        return next(here, ordinals[-1])

    def _born(self, ordinal: int, fact: f.AnyFact, seq: int) -> Card:
        context, lane = self.context, getattr(fact, "lane", "")
        path, parent = context.lane(lane)
        context.calls = max(context.calls, ordinal)
        if not context.ended:
            context.enter(context.scope)
        if fact.call_id in context.dropped:
            context.dropped.remove(fact.call_id)
        return Card(
            fact.call_id,
            ordinal=ordinal,
            occurrence=len(self._of.get(fact.call_id, ())) + 1,
            agent_path=tuple(path),
            parent_call=getattr(fact, "parent_call", "") or parent,
            scope=context.scope,
            lane=lane,
            step=context.step,
            attempt=getattr(fact, "attempt", 1),
            per_step=getattr(fact, "per_step", False),
            first_seq=seq,
        )

    def _put(self, card: Card) -> None:
        if card.ordinal not in self.cards:
            self._of.setdefault(card.call_id, []).append(card.ordinal)
        self.cards[card.ordinal] = card
        if card.waiting and not card.removed:
            self._waiting.add(card.ordinal)
        else:
            self._waiting.discard(card.ordinal)

    # ------------------------------------------------------------ inputs

    def _route_start(self, fact: Any) -> list[Routed]:
        """A call id may occur again in a later step (rule 9); its kind is settled here, once."""
        ordinal = self._ordinal(fact)
        card = self.cards.get(ordinal)
        if card is not None and card.hard and self._anew(card, fact):
            ordinal, card = self.context.calls + 1, None
        if isinstance(fact, f.InputInvalid):
            return [(ordinal, self._resolved(fact))]
        return [(ordinal, self._of_kind(fact, card))]

    def _resolved(self, fact: f.InputInvalid) -> f.InputInvalid:
        """Where the run announced its tools, a name that is none of them is the trouble."""
        offered = self.context.kinds
        unknown = fact.code == "invalid_input" and offered and fact.tool and fact.tool not in offered
        return replace(fact, code="no_such_tool") if unknown else fact

    def _anew(self, card: Card, fact: Any) -> bool:
        """Whether the fact means another call of the same id: in a later step, or a later attempt."""
        # A card that was asked about before its stream told of it may seem to be of the step before.
        later_step = getattr(fact, "per_step", False) and card.per_step and self.context.step > card.step
        return later_step or getattr(fact, "attempt", 1) > card.attempt

    def _of_kind(self, fact: Any, card: Card | None) -> Any:
        """The fact with the kind its card will show: a log must not depend on tomorrow's catalogue."""
        known = fact.tool or (card.tool.name if card else "")
        claimed = fact.kind or self.context.kinds.get(known, "")
        if not claimed and card and card.tool.name == known:
            claimed = card.tool.kind
        source = getattr(fact, "source", "") or (card.tool.source if card else "")
        kind = display_kind(known, claimed, source)
        return replace(fact, kind=kind) if kind != fact.kind else fact

    def _route_chunk(self, fact: f.InputChunk) -> list[Routed]:
        """AG-UI's chunk expansion: the first chunk starts the call, another id ends the one before."""
        going = self.context.chunked.get(fact.lane, "")
        call_id = fact.call_id or going
        if not call_id:
            return []
        routed: list[Routed] = []
        if going != call_id:
            routed = self._completed([going] if going else [], fact.at)
            routed += self._route_start(
                f.InputStarted(
                    call_id, fact.tool, at=fact.at, lane=fact.lane, parent_call=fact.parent_call, chunked=True
                )
            )
        if fact.text:
            delta = f.InputDelta(call_id, fact.text, at=fact.at)
            routed.append((routed[-1][0] if routed else self._ordinal(delta), delta))
        return routed

    def _chunks_ended(self, fact: f.AnyFact) -> list[Routed]:
        """Anything else in a lane completes the call that chunks were writing there; the run's facts, in every lane."""
        if not self.context.chunked or isinstance(fact, _CHUNK_EXEMPT):
            return []
        card = self.find(fact.call_id) if fact.call_id else None
        lane = card.lane if card else getattr(fact, "lane", "")
        if not lane and not fact.call_id and not isinstance(fact, f.TextDelta):
            return self._completed(self.context.chunked.values(), fact.at)
        going = self.context.chunked.get(lane, "")
        if not going or (going == fact.call_id and isinstance(fact, (*_STARTS, f.InputDelta))):
            return []
        return self._completed([going], fact.at)

    def _completed(self, call_ids: Iterable[str], at: float) -> list[Routed]:
        whole = [f.InputReady(call_id, at=at) for call_id in call_ids]
        return [routed for ready in whole for routed in self._route_start(ready)]

    # ------------------------------------------------------------ approvals

    def _route_asked(self, fact: f.ApprovalAsked) -> list[Routed]:
        if not fact.call_id:
            card = self.meant(fact)
            if card is None:
                return [(0, fact)]
            fact = replace(fact, call_id=card.call_id)
        ordinal = self._ordinal(fact)
        if fact.tool and ordinal not in self.cards:
            fact = self._of_kind(fact, None)
        if fact.automatic and ordinal in self.cards and self.cards[ordinal].decision:
            return []  # the host repeats what our gate has decided
        held = self.context.held.get(fact.source_id) or self.context.held.get(f"call:{fact.call_id}")
        if not held or not ordinal:
            return [(ordinal, fact)]
        approved, reason, _ = held
        answer = f.ApprovalAnswered(fact.call_id, approved, source_id=fact.source_id, reason=reason, at=fact.at)
        return [(ordinal, fact), (ordinal, answer)]

    def meant(self, fact: f.ApprovalAsked) -> Card | None:
        """Return the call of a question that names tool and input only: the first such that runs and was not asked for.

        LangGraph can tell one batch twice, the second time with its id: then it names a nameless question.
        """
        alike = [card for card in self.cards.values() if card.tool.name == fact.tool and not card.removed]
        alike = [card for card in alike if not card.has_input or same(card.input, fact.input)]
        running = (card for card in alike if card.state is S.INPUT_AVAILABLE)
        nameless = (card for card in alike if card.waiting and card.approval and not card.approval.source_id)
        return next(running, None) or (next(nameless, None) if fact.source_id else None)

    def _route_answered(self, fact: f.ApprovalAnswered) -> list[Routed]:
        """An answer finds its question by the wire's id; without one it is held until the question comes."""
        ordinal = self._asked_as(fact.source_id) if fact.source_id else 0
        ordinal = ordinal or self._newest(fact.call_id)
        return [(ordinal, replace(fact, call_id=self.cards[ordinal].call_id) if ordinal else fact)]

    def _asked_as(self, source_id: str) -> int:
        for ordinal, card in reversed(self.cards.items()):
            if card.approval and source_id in (card.approval.source_id, card.approval.id) and not card.removed:
                return ordinal
        return 0

    def _route_marked(self, fact: f.OutcomeMarked) -> list[Routed]:
        ordinal = self._newest(fact.call_id) or self._answered_in(fact.message_id)
        return [(ordinal, replace(fact, call_id=self.cards[ordinal].call_id) if ordinal else fact)]

    def _answered_in(self, message_id: str) -> int:
        """The card whose result came in that message of the wire."""
        found = (o for o, card in reversed(self.cards.items()) if card.output_message == message_id)
        return next(found, 0) if message_id else 0

    def _route_seen(self, fact: f.SnapshotSeen) -> list[Routed]:
        """Snapshots repeat the whole history every turn: what makes no card and corrects none is not written down."""
        ordinal = self._newest(fact.call_id)
        card = self.cards.get(ordinal)
        corrects = card is not None and card.state is S.OUTPUT_AVAILABLE and fact.error is not None
        return [(ordinal, fact)] if card and (corrects or not card.hard) else []

    # ------------------------------------------------------------ ends and new turns

    def _route_message(self, fact: f.MessageStarted) -> list[Routed]:
        """A new message with another id supersedes questions that the old one left unanswered."""
        known, new = self.context.message_id, fact.message_id
        routed: list[Routed] = [(0, fact)]
        if known and new and known != new:
            routed += [
                (card.ordinal, f.Closed(card.call_id, "superseded", at=fact.at))
                for card in self.open_cards()
                if card.state is S.APPROVAL_REQUESTED and card.approval and card.approval.opener == "agent"
            ]
        return routed

    def _route_reset(self, fact: f.StepReset) -> list[Routed]:
        step, scope = self.context.step, self.context.scope
        gone = [c for c in self.cards.values() if c.step == step and c.scope == scope and not c.removed]
        return [(0, fact), *((card.ordinal, f.Removed(card.call_id, at=fact.at)) for card in gone)]

    def _route_end(self, fact: f.RunEnded) -> list[Routed]:
        """The end of a scope, or of a lane in it, ends its open cards; other scopes go on (rule 20)."""
        if fact.again and not fact.lane and self.context.ended:
            return []
        open_cards = [card for card in self.open_cards() if ends(card, fact, self.context)]
        if fact.if_open and open_cards:
            fact = replace(fact, outcome=fact.if_open)
        end = explained(fact, self.context)
        routed: list[Routed] = [
            (card.ordinal, part) for card in open_cards for part in closing(card, end, self.context)
        ]
        return [*routed, (0, end)]

    def _route_closed(self, fact: f.Closed) -> list[Routed]:
        """Without a call: every call of the run's own lane that is open, once."""
        if fact.call_id:
            return [(self._ordinal(fact), fact)]
        own = (card for card in self.open_cards() if not card.lane and not card.soft)
        return [(card.ordinal, replace(fact, call_id=card.call_id)) for card in own]


def _to_run(board: Board, fact: f.AnyFact) -> list[Routed]:
    return [(0, fact)]


_ROUTES: dict[type, Callable[[Board, Any], list[Routed]]] = {
    **dict.fromkeys(_STARTS, Board._route_start),
    **dict.fromkeys(f.RUN_FACTS, _to_run),
    f.ApprovalAsked: Board._route_asked,
    f.ApprovalAnswered: Board._route_answered,
    f.OutcomeMarked: Board._route_marked,
    f.SnapshotSeen: Board._route_seen,
    f.Closed: Board._route_closed,
    f.MessageStarted: Board._route_message,
    f.StepReset: Board._route_reset,
    f.RunEnded: Board._route_end,
}
