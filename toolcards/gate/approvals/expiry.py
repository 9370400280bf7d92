"""Expiry by time: expires approvals and permits, and starts what else is due: escalations, ends of lost runs.

Approvals expire at `expires_at`, which `open_approval` in gate/questions/opening.py computes. Votes check the
deadline themselves; the sweep records what has expired.

A vote is refused after the deadline on the wall clock or in steady time (toolcards/clocks.py). The approval expires
when the deadline has passed in steady time: setting the clock forward expires nothing, setting it back delays nothing.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from django.conf import settings

from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.gate import emergency, timekeeping
from toolcards.gate.agents.liveness import LoseRun
from toolcards.gate.approvals import holds
from toolcards.gate.approvals.permits import expire_permit, has_expired_unused
from toolcards.gate.decisions.eligibility import load_terms
from toolcards.gate.refusals import Undecryptable
from toolcards.gate.twins.settlement import SettleTwins, find_settled_twins
from toolcards.gate.writer import approval_rows, group_commit
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import ApprovalCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Run

# Escalation: approvals that no one answers for a while get more approvers. The deadline stays.
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


EXPIRED_REASON = "No one answered in time."


def sweep() -> int:
    """Expire, escalate and end what is due; return the number of commands.

    While the kill switch is on, this also stops the calls that other processes decided when it was turned on.
    """
    timekeeping.follow_pulse()  # before the queries: after a pause of the server, less is due than it seems
    commands: list[Any] = [ExpireApproval(pk) for pk in _find_overdue_approvals()]
    commands += [EscalateApproval(pk) for pk in find_due_escalations()]
    commands += [ExpirePermit(pk) for pk in _find_expired_permits()]
    commands += [SettleTwins(pk) for pk in find_settled_twins()]
    commands += [holds.EndHold(pk) for pk in holds.find_lost_holds()]
    commands += [LoseRun(pk) for pk in _find_lost_runs()]
    commands += emergency.build_stops()
    for command in commands:
        with suppress(Undecryptable):  # a run without its key stays as it is and does not block the others
            group_commit.execute(command)
    return len(commands)


def is_anything_pending() -> bool:
    """Return whether something can become due by time alone."""
    return Approval.objects.unanswered().exists() or timekeeping.is_anything_running_out()


def _find_overdue_approvals() -> list[str]:
    return list(Approval.objects.unanswered().overdue(clock.steady()).values_list("id", flat=True)[:500])


def _find_expired_permits() -> list[str]:
    unused_approvals = Approval.objects.filter(state="approved", claimed_at=0, permit_expires_at__gt=0)
    return list(unused_approvals.filter(permit_expires_at__lte=clock.working()).values_list("id", flat=True)[:500])


def _find_lost_runs() -> list[int]:
    """Return the runs whose lease is over; empty in the grace time after a pause of the server."""
    now = clock.working()
    if now < clock.resumed + settings.TOOLCARDS.grace:
        return []
    return list(Run.objects.active().filter(alive_until__lte=now).values_list("pk", flat=True)[:500])


class ExpireApproval(ApprovalCommand):
    """Deny the call of an approval that no one answered in time."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        expire_if_overdue(tx, tx.load_run(row.run_id), row)


class ExpirePermit(ApprovalCommand):
    """Expire the permit of a call that was allowed but not executed in time."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        if has_expired_unused(row, tx.working):
            memory = tx.load_run(row.run_id)
            expire_permit(tx, memory, row, memory.board.cards[row.call.ordinal])


# ---------------------------------------------------------------- deadlines


def is_past_deadline(tx: Transaction, row: Approval) -> bool:
    """Return whether it is too late to vote."""
    return row.is_overdue(tx.steady)


def expire_if_overdue(tx: Transaction, memory: RunMemory, row: Approval) -> bool:
    """Expire a pending approval that is overdue; return whether it was."""
    if row.state != "pending" or not row.is_overdue(tx.steady):
        return False
    card = approval_rows.get_card(memory, row)
    if approval_rows.is_open_on(card, row):
        tx.record(memory, f.CallClosed(card.call_id, "expired", reason=EXPIRED_REASON, at=tx.now), card)
    else:
        Approval.objects.filter(id=row.id).update(state="expired", by_kind="timeout")
    row.state = "expired"
    return True
