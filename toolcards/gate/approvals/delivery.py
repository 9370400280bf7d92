"""Delivery of decisions to the agent: one connection claims each, so it is sent exactly once."""

from __future__ import annotations

from typing import Any

from toolcards.adapters import ADAPTERS, ApprovalAnswer
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.gate.approvals.permits import build_decision_with_permit, expire_permit, has_expired_unused
from toolcards.gate.decisions.recheck import recheck_approval
from toolcards.gate.decisions.responses import get_approval_effect
from toolcards.gate.refusals import NotAllowed
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import ApprovalCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import AgentKey, Approval


class ClaimDelivery(ApprovalCommand):
    """Claim a decision for sending. Answers the decision object, None if another connection claimed it.

    `key`: the primary key of the connection's agent key, which may have been revoked since the connection was opened.
    """

    def __init__(self, approval: str, key: int = 0) -> None:
        super().__init__(approval)
        self.key = key

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = None
        if self.key and not AgentKey.objects.live().filter(pk=self.key).exists():
            raise NotAllowed("This key was revoked.", code="revoked")
        if not Approval.objects.filter(id=self.approval, delivered_at=None).update(delivered_at=tx.now):
            return
        row = approval_rows.load_approval(self.approval)
        assert row is not None
        memory = tx.load_run(row.run_id)
        card = approval_rows.get_card(memory, row)
        if card.approval is None or card.approval.id != row.id:
            return  # a newer approval of the call superseded it and is delivered instead
        if has_expired_unused(row, tx.working):  # the sweep has not run yet
            expire_permit(tx, memory, row, card)
            card = memory.board.cards[card.ordinal]
        elif row.state == "approved" and row.opener == "gate":
            refusal = recheck_approval(tx, memory, row, card, can_wait=row.channel == "socket")
            card = memory.board.cards[card.ordinal]
            if refusal is not None and card.waiting:
                return  # a new approval was opened; its decision is delivered later
        decision: dict[str, Any] = build_decision_with_permit(memory, card)
        if row.opener == "agent":
            decision |= {"decision": get_approval_effect(card)} | _encode_replies(memory, card)
        if card.approval and card.approval.state == "approved":
            tx.record(memory, f.ApprovalChanged(card.call_id, "claimed", id=row.id, at=tx.now), card)
            approval_rows.update_approval(row.id, claimed_at=tx.now)
        self.answer = decision


def _encode_replies(memory: RunMemory, card: Card) -> dict[str, Any]:
    """Return the reply in the agent's protocol, and all replies of the scope if the protocol batches them."""
    adapter = ADAPTERS.get(memory.row.protocol)
    if adapter is None:
        return {"reply": None}
    replies: dict[str, Any] = {"reply": adapter.encode(_build_answer(card))}
    if adapter.encode_all is not None:
        same_scope = [peer for peer in memory.board.cards.values() if peer.scope == card.scope and not peer.removed]
        agent_opened = [peer for peer in same_scope if peer.approval and peer.approval.opener == "agent"]
        replies["resume"] = adapter.encode_all([_build_answer(peer) for peer in agent_opened if not peer.waiting])
    return replies


def _build_answer(card: Card) -> ApprovalAnswer:
    ask = card.approval
    assert ask is not None
    edited_input = card.input if card.repair == "edited" else None
    is_denied_by_person = card.denied_by is None or card.denied_by.kind == "human"
    reason = ask.reason or ("" if is_denied_by_person else card.denied)
    return ApprovalAnswer(
        card.call_id, ask.source_id, card.state != "output-denied", reason, edited_input, ask.reply_to, card.input
    )


class ReleaseDelivery(ApprovalCommand):
    """Release a claimed decision that could not be sent, so that another connection can claim it."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = approval_rows.load_approval(self.approval)
        if row is None:
            return
        memory = tx.load_run(row.run_id)
        card = approval_rows.get_card(memory, row)
        if card.approval is None or card.approval.id != row.id:
            return
        is_kept = row.opener == "agent" and card.soft  # its run broke off; the next one has the answer
        if card.finished and card.state is not ToolCallState.OUTPUT_DENIED and not is_kept:
            return  # the call ended without this answer; a denied call ended because of it
        if row.state == "claimed":
            tx.record(memory, f.ApprovalChanged(card.call_id, "approved", id=row.id, at=tx.now), card)
        approval_rows.update_approval(row.id, delivered_at=None, claimed_at=0)
