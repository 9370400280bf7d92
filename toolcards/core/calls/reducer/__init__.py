"""One fact, one step: what a fact teaches a card, and how a log adds up to one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.reducer import approval_handlers, input_handlers, outcome_handlers
from toolcards.core.calls.transitions import NEXT, column

STREAMING = ToolCallState.INPUT_STREAMING
_QUIET = {"reopen", "more", "update", "fill", "IS", "away"}
_SHOWN = (
    "state", "tool", "text", "input", "has_input", "output", "error", "denied", "repair", "anomalies",
    "provider_executed",
)  # fmt: skip


def step(card: Card, fact: f.AnyFact) -> Card:
    """Return the card after the fact; the very same card if the fact changes nothing. Never raises."""
    return advance(card, fact)[0]


def advance(card: Card, fact: f.AnyFact) -> tuple[Card, bool]:
    """Return the card after the fact, and whether the fact was applied (an anomaly alone is not)."""
    if type(fact) is f.InputDelta and card.state is STREAMING and card.segment is None and not card.removed:
        return _grown(card, fact)
    if card.removed:
        return card, False
    move = NEXT.get((row(fact), column(card)), ".")
    if move == "!":
        return _refused(card, fact), False
    after = _MOVES[move](card, fact)
    if after is card:
        return card, False
    if move in _QUIET and all(getattr(after, name) is getattr(card, name) for name in _SHOWN):
        return after, True  # nothing that a reader, or a voter, sees
    if after.unclaimed and (after.finished or after.preliminary or after.removed):
        after = approval_handlers.voided(after)
    if not after.begun and not after.soft and after.state not in (None, STREAMING):
        after = after.but(begun=True)
    if card.finished and not after.finished and not after.removed:
        after = after.but(revived=card.revived + 1, overruled=False)
    elif card.finished and card.soft and not after.soft:
        after = after.but(overruled=True)
    return after.but(rev=card.rev + 1), move == "odd" or not _only_noted(card, after)


def fold(card: Card, log: Iterable[f.AnyFact]) -> Card:
    """Return what the facts, in their order, make of the card."""
    for fact in log:
        card = step(card, fact)
    return card


def row(fact: f.AnyFact) -> str:
    """Return the fact's row in the transition table."""
    if isinstance(fact, f.ApprovalAnswered):
        return "answered-yes" if fact.approved else "answered-no"
    if isinstance(fact, f.CallClosed):
        return f"closed/{fact.how}"
    return fact.type


def _grown(card: Card, fact: f.InputDelta) -> tuple[Card, bool]:
    """The hot path: one more piece of a streaming input, one copy of the card."""
    if not fact.text:
        return card, False
    return card.but(text=card.text.plus(fact.text), rev=card.rev + 1), True


def _only_noted(card: Card, after: Card) -> bool:
    if after.anomalies is card.anomalies:
        return False
    now = after.__dict__
    return all(value is now[name] for name, value in card.__dict__.items() if name != "anomalies")


def _refused(card: Card, fact: f.AnyFact) -> Card:
    """What the table forbids is noted; after a denial, what the agent was told instead is kept as detail."""
    if approval_handlers.repeated(card, fact):
        return card
    after = card
    if card.state is ToolCallState.OUTPUT_DENIED and isinstance(fact, (f.OutputReady, f.OutputFailed)):
        told = fact.output if isinstance(fact, f.OutputReady) else fact.message
        if card.detail is None and told is not None:
            after = card.but(detail=told)
        ask = card.approval
        if ask and ask.opener == "agent" and ask.state == "denied" or _repeats(told, fact, card):
            return after if after is card else after.but(rev=card.rev + 1)
    after = after.noted(_ODDITY.get(type(fact), "protocol-violation"), fact.at)
    return after if after is card else after.but(rev=card.rev + 1)


def _repeats(told: Any, fact: f.AnyFact, card: Card) -> bool:
    """Whether the model is only told of the denial: most protocols have no other way than a result, or an error."""
    reason = card.denied
    if isinstance(fact, f.OutputFailed) and (not reason or told in ("", _MASKED)):
        return True
    if not reason and card.denied_by is not None and card.denied_by.kind == "human":
        reason = DECLINED  # a person who gave none
    return bool(reason) and str(reason) in (told if isinstance(told, str) else json.dumps(told, ensure_ascii=False))


DECLINED = "A person declined"  # what agents are told of a person's no, before its reason
_MASKED = "An error occurred."  # what AI SDK 6 says of every error
_ODDITY: dict[type, str] = {
    f.ApprovalAnswered: "late-response",
    **dict.fromkeys(
        (f.OutputReady, f.OutputFailed, f.OutputDenied, f.OutputPartial, f.InputInvalid), "conflicting-terminal"
    ),
}


def _ignore(card: Card, fact: Any) -> Card:
    return card


def _to_denied(card: Card, fact: Any) -> Card:
    return (approval_handlers.answered if isinstance(fact, f.ApprovalAnswered) else outcome_handlers.to_denied)(
        card, fact
    )


_CAUSES = ("aborted", "run-error", "truncated", "not-executed", "incomplete-input", "superseded")
_MOVES: dict[str, Callable[[Card, Any], Card]] = {
    ".": _ignore,
    "held": _ignore,
    "stay": _ignore,
    "IS": input_handlers.to_streaming,
    "IA": input_handlers.to_available,
    "AR": approval_handlers.asked,
    "AP": approval_handlers.answered,
    "PRE": outcome_handlers.to_partial,
    "OA": outcome_handlers.to_output,
    "OE": outcome_handlers.to_error,
    "OD": _to_denied,
    "reopen": input_handlers.reopen,
    "more": input_handlers.more,
    "update": input_handlers.update,
    "fill": input_handlers.fill,
    "again": approval_handlers.again,
    "judged": approval_handlers.judged,
    "permitted": approval_handlers.permitted,
    "rebound": approval_handlers.rebound,
    "moved": approval_handlers.moved,
    "counted": approval_handlers.voted,
    "escalated": approval_handlers.escalated,
    "away": approval_handlers.away,
    "marked": outcome_handlers.marked,
    "seen": outcome_handlers.seen,
    "client": outcome_handlers.owed_by_client,
    "expired": approval_handlers.expired,
    "by-hand": outcome_handlers.by_hand,
    "gone": lambda card, fact: card.but(removed=True),
    "odd": lambda card, fact: card.noted(fact.code, fact.at),
    **{cause: outcome_handlers.softly(cause) for cause in _CAUSES},
}
