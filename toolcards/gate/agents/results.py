"""What came of a call, as the agent that ran it says."""

from __future__ import annotations

from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.gate.agents.liveness import note_request
from toolcards.gate.decisions.preflight import is_stopped
from toolcards.gate.refusals import NotFound
from toolcards.gate.writer.command import RunCommand
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Source

S = ToolCallState


class RecordResult(RunCommand):
    """What came of an executed call; telling it again changes nothing."""

    OUTCOMES = ("ok", "error", "aborted", "unknown")

    def __init__(self, source: Source, run: str, call_id: str, body: dict[str, Any]) -> None:
        super().__init__(source, run)
        self.call_id, self.body = call_id, body

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        memory = self._run(tx)
        note_request(tx, memory)
        card = self._meant(memory)
        rows = Approval.objects.filter(run_id=memory.row.pk, call__ordinal=card.ordinal)
        row = rows.order_by("-requested_at").first()
        if not card.hard:
            if not self._is_repeated(card, row):
                self._conclude(tx, memory, card, row)
        elif card.state is S.OUTPUT_DENIED and self.body.get("outcome") in ("ok", "error"):
            self._conclude(tx, memory, card, row)  # it ran all the same: that is written down
        card = memory.board.cards[card.ordinal]
        self.answer = {"run": memory.row.name, "call_id": card.call_id, "state": str(card.state), "seq": memory.seq}

    def _meant(self, memory: RunMemory) -> Card:
        """Return the attempt that the result is of: as named, else the one that runs, else the newest."""
        board, attempt = memory.board, self.body.get("attempt")
        cards = [board.cards[ordinal] for ordinal in reversed(board.list_ordinals(self.call_id))]
        cards = [card for card in cards if not card.removed]
        named = (
            [card for card in cards if attempt in (card.attempt, *_list_asked_attempts(memory, card))]
            if attempt
            else []
        )
        usable = [card for card in named if not is_stopped(card)]  # a call that was never judged cannot have a result
        running = [card for card in usable or cards if card.running]
        chosen = (*running, *named, *cards)
        if not chosen:
            raise NotFound("There is no such call in this run.")
        return chosen[0]

    def _is_repeated(self, card: Card, row: Approval | None) -> bool:
        """Return whether the same end without a result is written down already: aborted, or unknown."""
        said = _build_outcome(card.call_id, self.body, 0.0)
        concluded = row is None or not row.claimed_at or row.state == "unknown"
        return isinstance(said, f.CallClosed) and card.soft and card.cause == said.how and concluded

    def _conclude(self, tx: Transaction, memory: RunMemory, card: Card, row: Approval | None) -> None:
        if not _is_governed(card, row):
            tx.record(memory, f.AnomalyRecorded(card.call_id, "ungoverned", at=tx.now), card)
        tx.record(memory, _build_outcome(card.call_id, self.body, tx.now), card)
        moved = {"ok": "succeeded", "error": "failed"}.get(str(self.body.get("outcome")), "unknown")
        no_news = moved == "unknown" and card.by_hand is not None  # a person knew more
        if row is not None and row.claimed_at and not no_news:
            Approval.objects.filter(id=row.id).update(state=moved)
            if row.asked:
                tx.record(memory, f.ApprovalChanged(card.call_id, moved, id=row.id, at=tx.now), card)
            else:
                tx.record(memory, f.PermitChanged(card.call_id, moved, row.id, tx.now), card)


def _list_asked_attempts(memory: RunMemory, card: Card) -> list[int]:
    """Return the attempts under which agents asked about the card."""
    rows = Approval.objects.filter(run_id=memory.row.pk, call__ordinal=card.ordinal)
    return list(rows.values_list("attempt", flat=True))


def _is_governed(card: Card, row: Approval | None) -> bool:
    """Whether the call had begun with a right to: what a rule allowed over a socket or a hook has no row to claim."""
    if row is not None:
        return bool(row.claimed_at)
    return card.decision is not None and card.decision.effect == "allow" and card.state is not S.OUTPUT_DENIED


def _build_outcome(call_id: str, body: dict[str, Any], at: float) -> f.AnyFact:
    outcome = body.get("outcome")
    if outcome == "ok":
        return f.OutputReady(call_id, body.get("output", body.get("output_preview")), at=at)
    if outcome == "error":
        error = body.get("error") or {}
        retryable, after = error.get("retryable"), error.get("after_ms")
        return f.OutputFailed(
            call_id, str(error.get("message", "")), str(error.get("code", "")),
            retryable if isinstance(retryable, bool) else None, str(error.get("authority", "")),
            str(error.get("phase", "")), at, after if type(after) is int else None,
        )  # fmt: skip
    return f.CallClosed(call_id, "aborted" if outcome == "aborted" else "truncated", at=at)
