"""The reducer: applies facts to a card by the transition table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.reducer import approval_handlers, input_handlers, outcome_handlers
from toolcards.core.calls.transitions import NEXT, find_column

STREAMING = ToolCallState.INPUT_STREAMING
_QUIET_MOVES = {"reopen", "more", "update", "fill", "IS", "away", "paused"}
_VISIBLE_FIELDS = (
    "state", "tool", "text", "input", "has_input", "output", "error", "denied", "repair", "anomalies",
    "provider_executed",
)  # fmt: skip


def apply_fact(card: Card, fact: f.AnyFact) -> Card:
    """Return the card after the fact; the same object if nothing changes."""
    return advance(card, fact)[0]


def advance(card: Card, fact: f.AnyFact) -> tuple[Card, bool]:
    """Return the card after the fact, and whether it was applied."""
    if type(fact) is f.InputDelta and card.state is STREAMING and card.segment is None and not card.removed:
        return _append_text(card, fact)
    if card.removed:
        return card, False
    move = NEXT.get((find_row(fact), find_column(card)), ".")
    if move == "!":
        return _refuse(card, fact), False
    after = _MOVES[move](card, fact)
    if after is card:
        return card, False
    if move in _QUIET_MOVES and all(getattr(after, name) is getattr(card, name) for name in _VISIBLE_FIELDS):
        return after, True  # no visible change
    was_finished, is_finished = card.finished, after.finished
    if (is_finished or after.preliminary or after.removed) and after.unclaimed:
        after = approval_handlers.void_permit(after)
    changes: dict[str, Any] = {"rev": card.rev + 1}
    if not after.begun and not after.soft and after.state not in (None, STREAMING):
        changes["begun"] = True
    if was_finished and not is_finished and not after.removed:
        changes |= {"revived": card.revived + 1, "overruled": False}
    elif was_finished and card.soft and not after.soft:
        changes["overruled"] = True
    if after.anomalies is card.anomalies or len(changes) > 1 or move == "odd":
        return after.replace(**changes), True
    return after.replace(**changes), not _adds_only_anomalies(card, after)


def fold(card: Card, log: Iterable[f.AnyFact]) -> Card:
    """Return the card after all facts, in order."""
    for fact in log:
        card = apply_fact(card, fact)
    return card


def find_row(fact: f.AnyFact) -> str:
    """Return the fact's row in the transition table."""
    if isinstance(fact, f.ApprovalAnswered):
        return "answered-yes" if fact.approved else "answered-no"
    if isinstance(fact, f.CallClosed):
        return f"closed/{fact.how}"
    return fact.type


def _append_text(card: Card, fact: f.InputDelta) -> tuple[Card, bool]:
    """Append a piece of streamed input: the hot path, one copy of the card."""
    if not fact.text:
        return card, False
    return card.replace(text=card.text.plus(fact.text), rev=card.rev + 1), True


def _adds_only_anomalies(card: Card, after: Card) -> bool:
    new_values = after.__dict__
    return all(value is new_values[name] for name, value in card.__dict__.items() if name != "anomalies")


def _refuse(card: Card, fact: f.AnyFact) -> Card:
    """Record what the table forbids as an anomaly; output after a denial is kept as detail."""
    if approval_handlers.is_repeat(card, fact):
        return card
    after = card
    if card.state is ToolCallState.OUTPUT_DENIED and isinstance(fact, (f.OutputReady, f.OutputFailed)):
        output = fact.output if isinstance(fact, f.OutputReady) else fact.message
        if card.detail is None and output is not None:
            after = card.replace(detail=output)
        if _repeats_denial(output, fact, card) or _carries_denial(card):
            return after if after is card else after.replace(rev=card.rev + 1)
    code = _ANOMALY_BY_FACT.get(type(fact), "protocol-violation")
    if card.state is ToolCallState.OUTPUT_DENIED and isinstance(fact, (f.OutputReady, f.OutputPartial)):
        code = "ran-without-approval"
    after = after.with_anomaly(code, fact.at)
    return after if after is card else after.replace(rev=card.rev + 1)


def _repeats_denial(output: Any, fact: f.AnyFact, card: Card) -> bool:
    """Return whether the output only repeats the denial: most protocols deny by a result or an error."""
    reason = card.denied
    if isinstance(fact, f.OutputFailed) and (not reason or output in ("", _GENERIC_ERROR)):
        return True
    if not reason and card.denied_by is not None and card.denied_by.kind == "human":
        reason = DECLINED  # denied by a person without a reason
    if not reason:
        return False
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return str(reason) in text


def _carries_denial(card: Card) -> bool:
    """Return whether the wire has no other word for a denial than a result (AG-UI, TanStack AI)."""
    ask = card.approval
    return card.message_id is not None and ask is not None and ask.opener == "agent" and ask.state == "denied"


DECLINED = "A person declined"  # starts the reason that agents receive for a person's denial
_GENERIC_ERROR = "An error occurred."  # the text of AI SDK 6 for every error
_ANOMALY_BY_FACT: dict[type, str] = {
    f.ApprovalAnswered: "late-response",
    **dict.fromkeys(
        (f.OutputReady, f.OutputFailed, f.OutputDenied, f.OutputPartial, f.InputInvalid), "conflicting-terminal"
    ),
}


def _ignore(card: Card, fact: Any) -> Card:
    return card


def _to_denied(card: Card, fact: Any) -> Card:
    return (approval_handlers.apply_answer if isinstance(fact, f.ApprovalAnswered) else outcome_handlers.deny)(
        card, fact
    )


_CAUSES = ("aborted", "run-error", "truncated", "not-executed", "incomplete-input", "superseded", "no-result")
_MOVES: dict[str, Callable[[Card, Any], Card]] = {
    ".": _ignore,
    "held": _ignore,
    "stay": _ignore,
    "IS": input_handlers.start_input,
    "IA": input_handlers.complete_input,
    "AR": approval_handlers.open_approval,
    "AP": approval_handlers.apply_answer,
    "PRE": outcome_handlers.set_partial_output,
    "OA": outcome_handlers.set_output,
    "OE": outcome_handlers.set_error,
    "OD": _to_denied,
    "reopen": input_handlers.reopen_input,
    "more": input_handlers.append_late_text,
    "update": input_handlers.update_input,
    "fill": input_handlers.fill_missing,
    "again": approval_handlers.open_another_approval,
    "judged": approval_handlers.record_decision,
    "permitted": approval_handlers.change_permit,
    "rebound": approval_handlers.change_approval_input,
    "moved": approval_handlers.change_approval_state,
    "fetched": approval_handlers.mark_fetched,
    "counted": approval_handlers.count_vote,
    "escalated": approval_handlers.add_escalation,
    "reviewed": approval_handlers.add_review,
    "away": approval_handlers.set_agent_away,
    "marked": outcome_handlers.apply_reported_outcome,
    "seen": outcome_handlers.apply_snapshot,
    "client": outcome_handlers.await_client,
    "passed": outcome_handlers.pass_over,
    "paused": approval_handlers.pause_run,
    "expired": approval_handlers.expire_approval,
    "by-hand": outcome_handlers.record_manual_outcome,
    "retried": outcome_handlers.change_retry,
    "gone": lambda card, fact: card.replace(removed=True),
    "odd": lambda card, fact: card.with_anomaly(fact.code, fact.at),
    **{cause: outcome_handlers.build_soft_end(cause) for cause in _CAUSES},
}
