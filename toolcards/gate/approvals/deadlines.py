"""Deadlines of questions: people see them in wall time, and no answer counts after one, however the clock is set.

An answer is refused when the deadline has passed on the wall clock or in steady time. The question expires when it has
passed in steady time: a clock that is set forward by mistake expires nothing, and one that is set back delays nothing.
"""

from __future__ import annotations

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval

EXPIRED_REASON = "Nobody answered in time."


def is_past_deadline(tx: Transaction, row: Approval) -> bool:
    """Return whether it is too late to answer the question, by either clock."""
    return 0 < row.expires_at <= tx.now or row.is_overdue(tx.steady)


def expire_if_overdue(tx: Transaction, memory: RunMemory, row: Approval) -> bool:
    """Close the question if its time is over and nobody answered; return whether that was so."""
    if row.state != "pending" or not row.is_overdue(tx.steady):
        return False
    card = memory.board.cards[row.call.ordinal]
    if is_open_on(card, row):
        tx.record(memory, f.Closed(card.call_id, "expired", reason=EXPIRED_REASON, at=tx.now), card)
    else:
        Approval.objects.filter(id=row.id).update(state="expired", by_kind="timeout")
    row.state = "expired"
    return True


def is_open_on(card: Card, row: Approval) -> bool:
    """Return whether the card still asks this very question."""
    return card.waiting and card.approval is not None and card.approval.id == row.id
