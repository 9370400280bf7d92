"""Answers on their way to the agent: taken by one connection, told once."""

from __future__ import annotations

from typing import Any

from toolcards.adapters import ADAPTERS, ApprovalAnswer
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.gate.approvals.permits import build_decision_with_permit, expire_permit, has_expired_unused
from toolcards.gate.decisions.recheck import recheck_approval
from toolcards.gate.decisions.responses import get_approval_effect
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval


class ClaimDelivery(Command):
    """Take an answer in order to send it; the answer is the decision object, None if somebody else took it."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = None
        if not Approval.objects.filter(id=self.approval, delivered_at=None).update(delivered_at=tx.now):
            return
        row = Approval.objects.get(id=self.approval)
        memory = tx.load_run(row.run_id)
        card = memory.board.cards[row.call.ordinal]
        if card.approval is None or card.approval.id != row.id:
            return  # a newer question of the same call took its place; that one will be answered
        if has_expired_unused(row, tx.working):  # the clock has not come by yet
            expire_permit(tx, memory, row, card)
            card = memory.board.cards[card.ordinal]
        elif row.state == "approved" and row.opener == "gate":
            refused = recheck_approval(tx, memory, row, card, can_wait=row.channel == "socket")
            card = memory.board.cards[card.ordinal]
            if refused is not None and card.waiting:
                return  # asked anew: the answer to that is owed now
        said: dict[str, Any] = build_decision_with_permit(memory, card)
        if row.opener == "agent":
            said |= {"decision": get_approval_effect(card)} | _encode_replies(memory, card)
        if card.approval and card.approval.state == "approved":
            tx.record(memory, f.ApprovalChanged(card.call_id, "claimed", id=row.id, at=tx.now), card)
            Approval.objects.filter(id=row.id).update(claimed_at=tx.now)
        self.answer = said


def _encode_replies(memory: RunMemory, card: Card) -> dict[str, Any]:
    """The answer as the agent's own protocol says it, and all answers of the run where it takes them together."""
    adapter = ADAPTERS.get(memory.row.protocol)
    if adapter is None:
        return {"reply": None}
    told: dict[str, Any] = {"reply": adapter.encode(_build_answer(card))}
    if adapter.encode_all is not None:
        scope = [other for other in memory.board.cards.values() if other.scope == card.scope and not other.removed]
        asked = [other for other in scope if other.approval and other.approval.opener == "agent"]
        told["resume"] = adapter.encode_all([_build_answer(other) for other in asked if not other.waiting])
    return told


def _build_answer(card: Card) -> ApprovalAnswer:
    ask = card.approval
    assert ask is not None
    edited = card.input if card.repair == "edited" else None
    return ApprovalAnswer(card.call_id, ask.source_id, card.state != "output-denied", ask.reason, edited, ask.reply_to)


class ReleaseDelivery(Command):
    """The connection broke before the answer was out: somebody else shall send it."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.filter(id=self.approval).first()
        if row is None:
            return
        memory = tx.load_run(row.run_id)
        card = memory.board.cards[row.call.ordinal]
        if card.approval is None or card.approval.id != row.id:
            return
        if card.finished and card.state is not ToolCallState.OUTPUT_DENIED:
            return  # the call went on without this answer; one that was denied ended by it
        if row.state == "claimed":
            tx.record(memory, f.ApprovalChanged(card.call_id, "approved", id=row.id, at=tx.now), card)
        Approval.objects.filter(id=row.id).update(delivered_at=None, claimed_at=0)
