"""Results: the outcome of a call as reported by the agent that ran it."""

from __future__ import annotations

from typing import Any

from toolcards.client.common.tool_results import format_result, read_result
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.gate.agents.liveness import note_request
from toolcards.gate.decisions.preflight import is_stopped
from toolcards.gate.refusals import NotFound
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import RunCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Source

S = ToolCallState


class RecordResult(RunCommand):
    """Record the outcome of an executed call. A repeated report changes nothing."""

    OUTCOMES = ("ok", "error", "aborted", "unknown")

    def __init__(self, source: Source, run: str, call_id: str, body: dict[str, Any]) -> None:
        super().__init__(source, run)
        self.call_id, self.body = call_id, body

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        memory = self._run(tx)
        note_request(tx, memory)
        card = self._find_card(memory)
        rows = Approval.objects.filter(run_id=memory.row.pk, call__ordinal=card.ordinal)
        row = rows.order_by("-requested_at").first()
        if not card.hard:
            if not self._is_repeated(card, row):
                self._conclude(tx, memory, card, row)
        elif card.state is S.OUTPUT_DENIED and self.body.get("outcome") in ("ok", "error"):
            self._conclude(tx, memory, card, row)  # it ran although denied, which is recorded
        card = memory.board.cards[card.ordinal]
        self.answer = {"run": memory.row.name, "call_id": card.call_id, "state": str(card.state), "seq": memory.seq}

    def _find_card(self, memory: RunMemory) -> Card:
        """Return the attempt that the result is about: the named one, else the running one, else the newest."""
        board, attempt = memory.board, self.body.get("attempt")
        cards = [board.cards[ordinal] for ordinal in reversed(board.list_ordinals(self.call_id))]
        cards = [card for card in cards if not card.removed]
        if attempt and _is_given_up(self.body):  # about a question: never about another attempt that runs
            cards = [card for card in cards if attempt in (_list_asked_attempts(memory, card) or [card.attempt])]
        named_cards = (
            [card for card in cards if attempt in (card.attempt, *_list_asked_attempts(memory, card))]
            if attempt
            else []
        )
        # A call without a decision cannot have a result.
        usable = [card for card in named_cards if not is_stopped(card)]
        running = [card for card in usable or cards if card.running]
        candidates = (*running, *named_cards, *cards)
        if not candidates:
            raise NotFound("Call not found in this run.")
        return candidates[0]

    def _is_repeated(self, card: Card, row: Approval | None) -> bool:
        """Return whether the same end without a result (aborted or unknown) is already recorded."""
        outcome = _build_outcome(card.call_id, self.body, 0.0)
        is_concluded = row is None or not row.claimed_at or row.state == "unknown"
        return isinstance(outcome, f.CallClosed) and card.soft and card.cause == outcome.how and is_concluded

    def _conclude(self, tx: Transaction, memory: RunMemory, card: Card, row: Approval | None) -> None:
        if not _is_governed(card, row) and not _is_given_up(self.body):
            tx.record(memory, f.AnomalyRecorded(card.call_id, "ungoverned", at=tx.now), card)
        tx.record(memory, _build_outcome(card.call_id, self.body, tx.now), card)
        new_state = {"ok": "succeeded", "error": "failed"}.get(str(self.body.get("outcome")), "unknown")
        is_known_already = new_state == "unknown" and card.by_hand is not None  # a person has recorded the outcome
        if row is not None and row.claimed_at and not is_known_already:
            Approval.objects.filter(id=row.id).update(state=new_state)
            if row.asked:
                tx.record(memory, f.ApprovalChanged(card.call_id, new_state, id=row.id, at=tx.now), card)
            else:
                tx.record(memory, f.PermitChanged(card.call_id, new_state, row.id, tx.now), card)


def _list_asked_attempts(memory: RunMemory, card: Card) -> list[int]:
    """Return the attempt numbers that agents used for the card."""
    rows = Approval.objects.filter(run_id=memory.row.pk, call__ordinal=card.ordinal)
    return list(rows.values_list("attempt", flat=True))


def _is_governed(card: Card, row: Approval | None) -> bool:
    """Return whether the call was allowed to run. An allow over a socket or hook has no row to claim."""
    if row is not None:
        return bool(row.claimed_at)
    return card.decision is not None and card.decision.effect == "allow" and card.state is not S.OUTPUT_DENIED


def _is_given_up(body: dict[str, Any]) -> bool:
    """Return whether the agent reports that the call never ran, for example because it stopped waiting."""
    return body.get("outcome") == "aborted" and body.get("side_effects") == "none"


def _build_outcome(call_id: str, body: dict[str, Any], moment: float) -> f.AnyFact:
    outcome = body.get("outcome")
    if outcome == "ok":
        return f.OutputReady(call_id, body.get("output", body.get("output_preview")), at=moment)
    if outcome == "error":
        error = body.get("error") or {}
        retryable, after = error.get("retryable"), error.get("after_ms")
        return f.OutputFailed(
            call_id, format_result(error.get("message")), str(error.get("code", "")),
            retryable if isinstance(retryable, bool) else None, str(error.get("authority", "")),
            str(error.get("phase", "")), moment, after if type(after) is int else None,
            read_result(body.get("output", body.get("output_preview"))).output,
        )  # fmt: skip
    return f.CallClosed(call_id, "aborted" if outcome == "aborted" else "truncated", at=moment)
