"""Holds of approvals: the request of a hook that waits for the answer, which ends with its server process.

An approval on the channel `hook` has a hold, `held_until` in working time (toolcards/clocks.py), which the process that
holds the request renews. A process that was killed renews nothing, and no hook gets the answer any more: so the
approval is withdrawn. An approval that outlives its request (the agent asks again) has no hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.command import ApprovalCommand, Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval

HOLD_LEASE = 60.0  # seconds without a renewal after which no request waits any more
LOST_REASON = "The server process that held the hook's request has ended."


class ReturnVisit(NamedTuple):
    """How an agent gets an answer that comes late: its request ends, and the same call is sent again."""

    after: float  # seconds
    by_person: bool  # a person must tell the agent to try again, else it does so by itself


def build_channel_columns(channel: str, working: float) -> dict[str, str | float]:
    """Return the columns of a new approval whose answer takes this channel."""
    return {"channel": channel, "held_until": working + HOLD_LEASE if channel == "hook" else 0.0}


def find_lost_holds() -> list[str]:
    """Return the open approvals that no request waits for any more."""
    approvals = Approval.objects.unanswered().filter(channel="hook", held_until__gt=0, held_until__lte=clock.working())
    return list(approvals.values_list("id", flat=True)[:500])


class RenewHolds(Command):
    """Renew the holds of the approvals that requests of this process wait for."""

    urgent = False

    def __init__(self, approvals: Iterable[str]) -> None:
        super().__init__()
        self.approvals = list(approvals)

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return self.approvals

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        rows = Approval.objects.filter(id__in=self.approvals, state="pending")
        rows.update(held_until=tx.working + HOLD_LEASE)


class ReleaseHold(ApprovalCommand):
    """Keep the approval without a request: the same call, sent again under its id, waits for the answer."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        Approval.objects.filter(id=self.approval, state="pending").update(held_until=0.0)


class EndHold(ApprovalCommand):
    """Withdraw an approval that no request waits for any more."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().get(id=self.approval)
        if row.state != "pending" or not 0 < row.held_until <= tx.working:
            return
        memory = tx.load_run(row.run_id)
        card = approval_rows.get_card(memory, row)
        if approval_rows.is_open_on(card, row):
            tx.record(memory, f.CallClosed(card.call_id, "cancelled", reason=LOST_REASON, at=tx.now), card)
        approval_rows.update_approval(row.id, state="cancelled")
