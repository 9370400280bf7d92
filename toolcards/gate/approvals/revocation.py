"""Revokes an approval that the agent has not received ("Undo" on pages): its permit is void, the call is denied.

This works only while the decision is held back (`handover_seconds`). Afterwards the agent can have it.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from toolcards.audit.trail import Act
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.gate.decisions.eligibility import list_identities, load_terms, may_vote
from toolcards.gate.refusals import NotAllowed, NotFound, TooLate
from toolcards.gate.writer import audit_entries
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import ApprovalCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Grant

# Reads that check whether a decision may be delivered hold no lock, so a revocation must be written before that time.
UNDO_MARGIN = 0.25  # seconds
REVOKED_REASON = "A person approved this call and then revoked the approval."


def get_undo_deadline(decided_at: float) -> float:
    """Return until when an approval can be revoked (epoch seconds, 0: never)."""
    handover = settings.TOOLCARDS.handover_seconds
    return decided_at + handover - UNDO_MARGIN if handover > UNDO_MARGIN and decided_at else 0.0


class RevokeApproval(ApprovalCommand):
    """Revoke a person's approval that is neither delivered nor used."""

    def __init__(self, person: Any, approval: str) -> None:
        super().__init__(approval)
        self.person = person

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().filter(id=self.approval, asked=True).first()
        if row is None:
            raise NotFound("Approval not found.")
        memory = tx.load_run(row.run_id)
        row.refresh_from_db()  # the run is locked now: no connection can claim the decision
        card = memory.board.cards[row.call.ordinal]
        if not self._is_repeated(row, card):
            self._check(row, card)
            self._revoke(tx, memory, row, card)
        self.answer = memory.board.cards[card.ordinal]

    def _is_repeated(self, row: Approval, card: Card) -> bool:
        """Return whether the same person revoked the approval before."""
        actor = card.denied_by
        is_mine = actor is not None and actor.kind == "human" and actor.name == self.person.get_username()
        return row.state == "revoked" and is_mine

    def _check(self, row: Approval, card: Card) -> None:
        if not may_vote(self.person):
            raise NotAllowed("You do not have permission to vote.")
        if not load_terms(row).may_answer(list_identities(self.person)):
            raise NotAllowed("This rule requires a different approver.")
        if row.claimed_at:
            raise TooLate("Too late to undo: the agent has the answer.", code="used")
        is_current = card.approval is not None and card.approval.id == row.id
        if row.state != "approved" or row.by_kind != "human" or not is_current:
            raise TooLate(f"Nothing to revoke: this approval is {row.state}.", code="used")
        is_held_back = clock.is_recent(row.decided_at, settings.TOOLCARDS.handover_seconds - UNDO_MARGIN)
        if row.delivered_at or not is_held_back:  # a read of the agent leaves no trace before it claims
            raise TooLate("Too late to undo: the agent can have the answer.", code="used")

    def _revoke(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card) -> None:
        actor = f.Actor("human", self.person.get_username())
        tx.audit_acts.append(
            audit_entries.build_call_act(memory, card, "vote.undone", actor.kind, actor.name, tx.now, row.id)
        )
        for grant in Grant.objects.live(tx.now).filter(approval=row):  # grants of the revoked vote
            Grant.objects.filter(pk=grant.pk).update(revoked_at=tx.now)
            detail = {"grant": grant.id, "rule": grant.rule, "tool": grant.tool}
            tx.audit_acts.append(Act("grant.revoked", actor.kind, actor.name, detail=detail, at=tx.now))
        tx.record(memory, f.ApprovalChanged(card.call_id, "revoked", id=row.id, at=tx.now), card)
        tx.record(memory, f.OutputDenied(card.call_id, reason=REVOKED_REASON, by=actor, at=tx.now), card)
