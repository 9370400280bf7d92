"""What time does by itself: questions are escalated, approvals and permits expire, vanished agents' runs are lost.

Expiry is a fact of `expires_at`, checked wherever somebody answers; the sweep only says it aloud.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from django.conf import settings

from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.gate.agents.liveness import LoseRun
from toolcards.gate.approvals.permits import expire_permit, has_expired_unused
from toolcards.gate.decisions.eligibility import load_terms
from toolcards.gate.refusals import Undecryptable
from toolcards.gate.writer import group_commit, timekeeping
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Run

EXPIRED_REASON = "Nobody answered in time."
_ESCALATION_IN_TERMS = '"escalate": [['  # as json.dumps spells terms that name somebody


def sweep() -> int:
    """Expire and lose what is due; return how many things that were."""
    timekeeping.follow_pulse()  # first of all: after a pause of our own, less is due than it seems
    works: list[Any] = [ExpireApproval(pk) for pk in _find_overdue_approvals()]
    works += [EscalateApproval(pk) for pk in _find_due_escalations()]
    works += [ExpirePermit(pk) for pk in _find_expired_permits()]
    works += [LoseRun(pk) for pk in _find_lost_runs()]
    for work in works:
        with suppress(Undecryptable):  # without its key a run stays as it is, and keeps no other from its end
            group_commit.execute(work)
    return len(works)


def _find_overdue_approvals() -> list[str]:
    return list(Approval.objects.waiting().overdue(clock.steady()).values_list("id", flat=True)[:500])


def _find_due_escalations() -> list[str]:
    """The few questions that say so wait seldom, so they are read each time: nothing to keep, nothing to lose."""
    escalating = Approval.objects.waiting().filter(opener="gate", terms__contains=_ESCALATION_IN_TERMS)
    rows, steady = escalating.only("requested_at", "clock_offset", "terms", "opener"), clock.steady()
    return [row.pk for row in rows if _list_due_escalations(row, steady)]


def _list_due_escalations(row: Approval, steady: float) -> tuple[tuple[float, str], ...]:
    return load_terms(row).due(row.clock_offset + steady - row.requested_at)


def _find_expired_permits() -> list[str]:
    unused = Approval.objects.filter(state="approved", claimed_at=0, permit_expires_at__gt=0)
    return list(unused.filter(permit_expires_at__lte=clock.working()).values_list("id", flat=True)[:500])


def _find_lost_runs() -> list[int]:
    """Return the runs whose lease is over; none while agents may still be on their way back after a pause of ours."""
    now = clock.working()
    if now < clock.resumed + settings.TOOLCARDS.grace:
        return []
    return list(Run.objects.active().filter(alive_until__lte=now).values_list("pk", flat=True)[:500])


class ExpireApproval(Command):
    """Nobody answered in time: the call is denied by the clock."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        expire_if_overdue(tx, tx.load_run(row.run_id), row)


class EscalateApproval(Command):
    """Nobody answered for a while: those whom the rule names then are asked too. The deadline stays."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        due = _list_due_escalations(row, tx.steady)
        if row.state != "pending" or not due or row.is_overdue(tx.steady):
            return
        terms = load_terms(row)
        memory = tx.load_run(row.run_id)
        card = memory.board.cards[row.call.ordinal]
        if card.approval is None or not is_open_on(card, row):
            return
        told = replace(terms, escalated=(*terms.escalated, *due))
        Approval.objects.filter(id=row.id).update(terms=json.dumps(asdict(told)))  # once, whoever's clock it was
        new = list(dict.fromkeys(to for _, to in due if to not in dict(card.approval.escalated)))
        if new:
            tx.record(memory, f.ApprovalEscalated(card.call_id, new, id=row.id, at=tx.now), card)


class ExpirePermit(Command):
    """Approved, but not executed in time: the right to execute is gone."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        if has_expired_unused(row, tx.working):
            memory = tx.load_run(row.run_id)
            expire_permit(tx, memory, row, memory.board.cards[row.call.ordinal])


# ---------------------------------------------------------------- deadlines


def is_past_deadline(tx: Transaction, row: Approval) -> bool:
    """Return whether it is too late to answer the question, by either clock."""
    return 0 < row.expires_at <= tx.now or row.is_overdue(tx.steady)


def expire_if_overdue(tx: Transaction, memory: RunMemory, row: Approval) -> bool:
    """Close the question if its time is over and nobody answered; return whether that was so."""
    if row.state != "pending" or not row.is_overdue(tx.steady):
        return False
    card = memory.board.cards[row.call.ordinal]
    if is_open_on(card, row):
        tx.record(memory, f.CallClosed(card.call_id, "expired", reason=EXPIRED_REASON, at=tx.now), card)
    else:
        Approval.objects.filter(id=row.id).update(state="expired", by_kind="timeout")
    row.state = "expired"
    return True


def is_open_on(card: Card, row: Approval) -> bool:
    """Return whether the card still asks this very question."""
    return card.waiting and card.approval is not None and card.approval.id == row.id
