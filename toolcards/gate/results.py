"""What came of a call, as the agent that ran it says."""

from __future__ import annotations

from typing import Any

from toolcards.core import facts as f
from toolcards.core.lifecycle import Card, ToolCallState
from toolcards.gate.memory import RunMemory
from toolcards.gate.refusals import Unknown
from toolcards.gate.transaction import Transaction
from toolcards.gate.work import OfSource
from toolcards.models import Approval, Source

S = ToolCallState


class Result(OfSource):
    """What came of an executed call; telling it again changes nothing."""

    OUTCOMES = ("ok", "error", "aborted", "unknown")

    def __init__(self, source: Source, run: str, call_id: str, body: dict[str, Any]) -> None:
        super().__init__(source, run)
        self.call_id, self.body = call_id, body

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        memory = self._run(tx)
        card = memory.board.find(self.call_id)
        if card is None:
            raise Unknown("There is no such call in this run.")
        rows = Approval.objects.filter(run_id=memory.row.pk, call__ordinal=card.ordinal)
        row = rows.order_by("-requested_at").first()
        if not card.hard:
            self._conclude(tx, memory, card, row)
        elif card.state is S.OUTPUT_DENIED and self.body.get("outcome") in ("ok", "error"):
            self._conclude(tx, memory, card, row)  # it ran all the same: that is written down
        card = memory.board.cards[card.ordinal]
        self.answer = {"run": memory.row.name, "call_id": card.call_id, "state": str(card.state), "seq": memory.seq}

    def _conclude(self, tx: Transaction, memory: RunMemory, card: Card, row: Approval | None) -> None:
        if not _governed(card, row):
            tx.tell(memory, f.Odd(card.call_id, "ungoverned", at=tx.now))
        tx.tell(memory, _outcome(card.call_id, self.body, tx.now))
        moved = {"ok": "succeeded", "error": "failed"}.get(str(self.body.get("outcome")), "unknown")
        no_news = moved == "unknown" and card.by_hand is not None  # a person knew more
        if row is not None and row.claimed_at and not no_news:
            Approval.objects.filter(id=row.id).update(state=moved)
            if card.approval and card.approval.id == row.id:
                tx.tell(memory, f.ApprovalMoved(card.call_id, moved, id=row.id, at=tx.now))


def _governed(card: Card, row: Approval | None) -> bool:
    """Whether the call had begun with a right to: what a rule allowed over a socket or a hook has no row to claim."""
    if row is not None:
        return bool(row.claimed_at)
    return card.decision is not None and card.decision.effect == "allow" and card.state is not S.OUTPUT_DENIED


def _outcome(call_id: str, body: dict[str, Any], at: float) -> f.AnyFact:
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
    return f.Closed(call_id, "aborted" if outcome == "aborted" else "truncated", at=at)
