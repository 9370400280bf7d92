"""Revokes an approval that the agent has not received ("Undo" on pages): its permit is void, the call is denied.

This works until the agent has fetched or claimed the answer: both are recorded while its run is locked, so of an undo
and a fetch at the same time one comes first.
"""

from __future__ import annotations

from typing import Any

from toolcards.audit.trail import Act
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.gate import lasting_answers
from toolcards.gate.decisions.eligibility import list_identities, load_terms, may_vote
from toolcards.gate.refusals import NotAllowed, NotFound, TooLate
from toolcards.gate.writer import audit_entries
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import ApprovalCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Grant

REVOKED_REASON = "A person approved this call and then revoked the approval."


def can_undo(card: Card) -> bool:
    """Return whether a person approved and the agent does not have it."""
    ask = card.approval
    is_by_person = ask is not None and ask.by is not None and ask.by.kind == "human" and not card.finished
    return ask is not None and is_by_person and ask.state == "approved" and not ask.fetched


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
        is_fetched = card.approval is not None and card.approval.id == row.id and card.approval.fetched
        if row.claimed_at or row.delivered_at or is_fetched:
            raise TooLate("Too late to undo: the agent has the answer.", code="used")
        is_current = card.approval is not None and card.approval.id == row.id
        if row.state != "approved" or not is_current or not can_undo(card):
            raise TooLate(f"Nothing to revoke: this approval is {row.state}.", code="used")

    def _revoke(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card) -> None:
        actor = f.Actor("human", self.person.get_username())
        tx.audit_acts.append(
            audit_entries.build_call_act(memory, card, "vote.undone", actor.kind, actor.name, tx.now, row.id)
        )
        if card.approval is not None and card.approval.lasting_rule:
            lasting_answers.take_back(card, self.person)
        for grant in Grant.objects.live(tx.now).filter(approval=row):  # grants of the revoked vote
            Grant.objects.filter(pk=grant.pk).update(revoked_at=tx.now)
            detail = {"grant": grant.id, "rule": grant.rule, "tool": grant.tool}
            tx.audit_acts.append(Act("grant.revoked", actor.kind, actor.name, detail=detail, at=tx.now))
        tx.record(memory, f.ApprovalChanged(card.call_id, "revoked", id=row.id, at=tx.now), card)
        tx.record(memory, f.OutputDenied(card.call_id, reason=REVOKED_REASON, by=actor, at=tx.now), card)
