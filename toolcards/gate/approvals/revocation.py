"""A yes taken back before the agent has heard it: the approval is revoked, its permit is void, the call is denied.

Only while the answer is held back (`handover_seconds`). Afterwards there is nothing to undo: the agent has it.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from toolcards.audit.trail import Act
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.gate.decisions.eligibility import list_identities, load_terms
from toolcards.gate.refusals import NotAllowed, NotFound, TooLate
from toolcards.gate.writer import audit_entries
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Grant

# Who looks whether an answer may be told holds no lock, so what is taken back must be written before they can look.
UNDO_MARGIN = 0.25  # seconds
REVOKED_REASON = "A person approved this call and took the approval back."


def get_undo_deadline(decided_at: float) -> float:
    """Return until when an approval given then can be taken back, in epoch seconds; 0 where it never can."""
    held = settings.TOOLCARDS.handover_seconds
    return decided_at + held - UNDO_MARGIN if held > UNDO_MARGIN and decided_at else 0.0


class RevokeApproval(Command):
    """Compare and set: approved by a person, not told, not used, and still held back at this very moment."""

    def __init__(self, person: Any, approval: str) -> None:
        super().__init__()
        self.person, self.approval = person, approval

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().filter(id=self.approval, asked=True).first()
        if row is None:
            raise NotFound("There is no such approval.")
        memory = tx.load_run(row.run_id)
        row.refresh_from_db()  # the run is locked now: nobody takes the answer from here on
        card = memory.board.cards[row.call.ordinal]
        if not self._done_before(row, card):
            self._check(row, card)
            self._revoke(tx, memory, row, card)
        self.answer = memory.board.cards[card.ordinal]

    def _done_before(self, row: Approval, card: Card) -> bool:
        by = card.denied_by
        mine = by is not None and by.kind == "human" and by.name == self.person.get_username()
        return row.state == "revoked" and mine

    def _check(self, row: Approval, card: Card) -> None:
        if not self.person.has_perm("toolcards.vote"):
            raise NotAllowed("You may look, but not answer.")
        if not load_terms(row).may_answer(list_identities(self.person)):
            raise NotAllowed("The rule wants somebody else to answer this.")
        ours = card.approval is not None and card.approval.id == row.id
        if row.state != "approved" or row.by_kind != "human" or not ours:
            raise TooLate(f"Nothing to take back: this approval is {row.state}.", code="used")
        held = clock.is_recent(row.decided_at, settings.TOOLCARDS.handover_seconds - UNDO_MARGIN)
        if row.claimed_at or row.delivered_at or not held:
            raise TooLate("Too late to take it back: the agent has the answer.", code="used")

    def _revoke(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card) -> None:
        by = f.Actor("human", self.person.get_username())
        tx.audit_acts.append(
            audit_entries.build_call_act(memory, card, "vote.undone", by.kind, by.name, tx.now, row.id)
        )
        for grant in Grant.objects.live(tx.now).filter(approval=row):  # what came with the yes goes with it
            Grant.objects.filter(pk=grant.pk).update(revoked_at=tx.now)
            told = {"grant": grant.id, "rule": grant.rule, "tool": grant.tool}
            tx.audit_acts.append(Act("grant.revoked", by.kind, by.name, detail=told, at=tx.now))
        tx.record(memory, f.ApprovalChanged(card.call_id, "revoked", id=row.id, at=tx.now), card)
        tx.record(memory, f.OutputDenied(card.call_id, reason=REVOKED_REASON, by=by, at=tx.now), card)
