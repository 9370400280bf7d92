"""The big red button, and the glass before the fire alarm.

The kill switch denies every call, whatever policy says, and takes back what was allowed but not begun.
Break-glass lifts asks (never denies, never the kill switch) for a while, and counts every call it lets pass.
"""

from __future__ import annotations

import time
from typing import Any

from django.db.models import F

from toolcards.audit.trail import Act
from toolcards.core.calls import facts as f
from toolcards.gate.refusals import InvalidRequest
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction, fit_text
from toolcards.models import Approval, BreakGlass, KillSwitch

MAX_BREAK_GLASS_MINUTES = 8 * 60  # minutes
KILL_SWITCH_REASON = "All tool calls are stopped."


def is_kill_switch_on() -> bool:
    """Whether the kill switch is on."""
    newest = KillSwitch.objects.order_by("-id").values_list("on", flat=True).first()
    return bool(newest)


def get_active_kill_switch() -> KillSwitch | None:
    """Return the throw of the kill switch that holds; None while it is off."""
    row = KillSwitch.objects.order_by("-id").first()
    return row if row and row.on else None


def get_active_break_glass(now: float | None = None) -> BreakGlass | None:
    """Return the break-glass that is in force."""
    now = time.time() if now is None else now
    return BreakGlass.objects.filter(ended_at=None, until__gt=now).order_by("-id").first()


def get_emergency_state() -> dict[str, Any]:
    """Return what holds now, for the top of every page: the throw of the kill switch, and the broken glass."""
    return {"killed": get_active_kill_switch(), "glass": get_active_break_glass()}


def count_passed_call(broken: BreakGlass) -> None:
    """Count a call that only break-glass let pass."""
    BreakGlass.objects.filter(pk=broken.pk).update(passed=F("passed") + 1)


class SetKillSwitch(Command):
    """Throw the kill switch. On: every open question is denied, every unused permit is void."""

    def __init__(self, by: str, on: bool, reason: str = "", kind: str = "human") -> None:
        super().__init__()
        self.by, self.on, self.reason, self.kind = by, on, fit_text(reason.strip(), 2000), kind

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        tx.affects_every_run = True
        KillSwitch.objects.create(on=self.on, by=self.by, reason=self.reason, at=tx.now)
        name = f"killswitch.{'on' if self.on else 'off'}"
        tx.audit_acts.append(Act(name, self.kind, self.by, detail={"reason": self.reason}, at=tx.now))
        stopped = self._stop(tx) if self.on else 0
        self.answer: dict[str, Any] = {"on": self.on, "by": self.by, "stopped": stopped}

    def _stop(self, tx: Transaction) -> int:
        open_ = Approval.objects.filter(state__in=("pending", "approved"), claimed_at=0).select_related("call")
        rows = list(open_.exclude(opener="agent", channel="none"))  # those are answered where the agent runs
        by = f.Actor("kill_switch", self.by)
        for row in rows:
            memory = tx.load_run(row.run_id)
            card = memory.board.cards[row.call.ordinal]
            ours = card.approval is None or card.approval.id == row.id
            if card.permit is not None and card.permit.id == row.id:
                tx.record(memory, f.PermitChanged(card.call_id, "revoked", row.id, tx.now), card)
            if not card.hard and ours:
                if row.state == "approved" and card.approval and card.approval.id == row.id:
                    tx.record(memory, f.ApprovalChanged(card.call_id, "revoked", id=row.id, at=tx.now), card)
                tx.record(memory, f.OutputDenied(card.call_id, reason=KILL_SWITCH_REASON, by=by, at=tx.now), card)
            Approval.objects.filter(id=row.id).update(
                state="denied" if row.state == "pending" else "revoked", by_kind="kill_switch", by_name=self.by
            )
        return len(rows)


class SetBreakGlass(Command):
    """Break the glass, or put it back with `minutes` 0."""

    def __init__(self, by: str, reason: str, minutes: float, kind: str = "human") -> None:
        super().__init__()
        self.by, self.reason, self.minutes, self.kind = by, fit_text(reason.strip(), 2000), minutes, kind

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        tx.affects_every_run = True
        BreakGlass.objects.filter(ended_at=None, until__gt=tx.now).update(ended_at=tx.now)
        if not self.minutes:
            tx.audit_acts.append(Act("breakglass.ended", self.kind, self.by, at=tx.now))
            self.answer = {"until": None}
            return
        if not self.reason:
            raise InvalidRequest("Say why.", code="reason_required")
        if not 0 < self.minutes <= MAX_BREAK_GLASS_MINUTES:
            raise InvalidRequest(f"At most {MAX_BREAK_GLASS_MINUTES} minutes.", code="too_long")
        row = BreakGlass.objects.create(by=self.by, reason=self.reason, at=tx.now, until=tx.now + self.minutes * 60)
        detail = {"reason": self.reason, "minutes": self.minutes}
        tx.audit_acts.append(Act("breakglass.on", self.kind, self.by, detail=detail, at=tx.now))
        self.answer = {"until": row.until}
