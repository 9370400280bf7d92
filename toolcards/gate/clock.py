"""What time does by itself: questions are escalated, approvals and permits expire, vanished agents' runs are lost.

Expiry is a fact of `expires_at`, checked wherever somebody answers; the sweep only says it aloud.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from toolcards.core import facts as f
from toolcards.gate import journal
from toolcards.gate.permits import forfeit, lapse, lapsed
from toolcards.gate.refusals import Sealed
from toolcards.gate.terms import terms_of
from toolcards.gate.transaction import Transaction
from toolcards.gate.work import Action
from toolcards.models import Approval, Run

_ESCALATES = '"escalate": [['  # as json.dumps spells terms that name somebody


def sweep(now: float | None = None) -> int:
    """Expire and lose what is due at `now` (epoch seconds); return how many things that were."""
    now = time.time() if now is None else now
    works: list[Any] = [Expire(pk) for pk in _due_approvals(now)]
    works += [Escalate(pk) for pk in _due_escalations(now)]
    works += [LapsePermit(pk) for pk in _due_permits(now)]
    works += [Lose(pk) for pk in _due_runs(now)]
    for work in works:
        with suppress(Sealed):  # without its key a run stays as it is, and keeps no other from its end
            journal.do(work)
    return len(works)


def _due_approvals(now: float) -> list[str]:
    due = Approval.objects.waiting().filter(expires_at__gt=0, expires_at__lte=now)
    return list(due.values_list("id", flat=True)[:500])


def _due_escalations(now: float) -> list[str]:
    """The few questions that say so wait seldom, so they are read each time: nothing to keep, nothing to lose."""
    escalating = Approval.objects.waiting().filter(opener="gate", terms__contains=_ESCALATES)
    return [row.pk for row in escalating.only("requested_at", "terms", "opener") if _due(row, now)]


def _due(row: Approval, now: float) -> tuple[tuple[float, str], ...]:
    return terms_of(row).due(now - row.requested_at)


def _due_permits(now: float) -> list[str]:
    due = Approval.objects.filter(state="approved", claimed_at=0, permit_expires_at__gt=0, permit_expires_at__lte=now)
    return list(due.values_list("id", flat=True)[:500])


def _due_runs(now: float) -> list[int]:
    return list(Run.objects.active().filter(alive_until__lte=now).values_list("pk", flat=True)[:500])


class Expire(Action):
    """Nobody answered in time: the call is denied by the clock."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        if row.state != "pending" or row.expires_at > tx.now:
            return
        memory = tx.existing(row.run_id)
        card = memory.board.cards[row.call.ordinal]
        if card.approval and card.approval.id == row.id and card.waiting:
            tx.tell(memory, f.Closed(card.call_id, "expired", reason="Nobody answered in time.", at=tx.now), card)
        else:
            Approval.objects.filter(id=row.id).update(state="expired", by_kind="timeout")


class Escalate(Action):
    """Nobody answered for a while: those whom the rule names then are asked too. The deadline stays."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        due = _due(row, tx.now)
        if row.state != "pending" or not due or 0 < row.expires_at <= tx.now:
            return
        terms = terms_of(row)
        memory = tx.existing(row.run_id)
        card = memory.board.cards[row.call.ordinal]
        if card.approval is None or card.approval.id != row.id or not card.waiting:
            return
        told = replace(terms, escalated=(*terms.escalated, *due))
        Approval.objects.filter(id=row.id).update(terms=json.dumps(asdict(told)))  # once, whoever's clock it was
        new = list(dict.fromkeys(to for _, to in due if to not in dict(card.approval.escalated)))
        if new:
            tx.tell(memory, f.Escalated(card.call_id, new, id=row.id, at=tx.now), card)


class LapsePermit(Action):
    """Approved, but not executed in time: the right to execute is gone."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        if lapsed(row, tx.now):
            memory = tx.existing(row.run_id)
            lapse(tx, memory, row, memory.board.cards[row.call.ordinal])


class Lose(Action):
    """The agent is gone and did not come back in its grace time: the run counts as truncated."""

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run = run

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        memory = tx.existing(self.run)
        memory.row.refresh_from_db(fields=["alive_until"])
        until = memory.row.alive_until
        if until is None or until > tx.now or memory.status not in ("running", "waiting"):
            return
        memory.row.alive_until = None
        memory.row.reason = "The agent was not heard of any more."
        tx.tell(memory, f.RunEnded(outcome="truncated", reason=memory.row.reason, at=tx.now))
        forfeit(tx, memory)
