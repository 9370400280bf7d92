"""Escalation: approvals that no one answers for a while get more approvers. The deadline stays."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.gate.decisions.eligibility import load_terms
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.command import ApprovalCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval

_ESCALATION_IN_TERMS = '"escalate": [['  # part of the JSON of terms that escalate to someone


def find_due_escalations() -> list[str]:
    """Return the approvals to escalate now.

    Escalating terms are rare, so their rows are read each time.
    """
    escalating = Approval.objects.waiting().filter(opener="gate", terms__contains=_ESCALATION_IN_TERMS)
    rows, steady = escalating.only("requested_at", "clock_offset", "terms", "opener"), clock.steady()
    return [row.pk for row in rows if _list_due_escalations(row, steady)]


def _list_due_escalations(row: Approval, steady: float) -> tuple[tuple[float, str], ...]:
    return load_terms(row).find_due_escalations(row.clock_offset + steady - row.requested_at)


class EscalateApproval(ApprovalCommand):
    """Add the approvers that the rule names for a delay in answering. The deadline does not change."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        escalations = _list_due_escalations(row, tx.steady)
        if row.state != "pending" or not escalations or row.is_overdue(tx.steady):
            return
        terms = load_terms(row)
        memory = tx.load_run(row.run_id)
        card = memory.board.cards[row.call.ordinal]
        if card.approval is None or not approval_rows.is_open_on(card, row):
            return
        terms = replace(terms, escalated=(*terms.escalated, *escalations))
        Approval.objects.filter(id=row.id).update(terms=json.dumps(asdict(terms)))
        names = (name for _, name in escalations if name not in dict(card.approval.escalated))
        new = list(dict.fromkeys(names))
        if new:
            tx.record(memory, f.ApprovalEscalated(card.call_id, new, id=row.id, at=tx.now), card)
