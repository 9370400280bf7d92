"""Kill switch and break-glass.

The kill switch denies every call, whatever policy decides, and revokes unused permits. Break-glass temporarily allows
calls that would need approval, and counts them. It lifts neither denials nor the kill switch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from toolcards.audit.trail import Act
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.gate.refusals import InvalidRequest, Undecryptable
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, BreakGlass, KillSwitch, prepared_selects
from toolcards.models.prepared_selects import PreparedSelect

MAX_BREAK_GLASS_MINUTES = 8 * 60
_BREAK_GLASS = PreparedSelect(BreakGlass, "WHERE ended_at IS NULL ORDER BY id DESC")
KILL_SWITCH_REASON = "All tool calls are stopped."
STOPPED_AT_ONCE = 200  # approvals of one commit


def is_kill_switch_on() -> bool:
    """Return whether the kill switch is on."""
    return prepared_selects.recall(is_kill_switch_on, _select_kill_switch)


def _select_kill_switch() -> bool:
    with connection.cursor() as cursor:
        cursor.execute('SELECT "on" FROM toolcards_killswitch ORDER BY id DESC LIMIT 1')
        row = cursor.fetchone()
    return bool(row and row[0])


def get_active_kill_switch() -> KillSwitch | None:
    """Return the row that turned the kill switch on, None while off."""
    row = KillSwitch.objects.order_by("-id").first()
    return row if row and row.on else None


def get_active_break_glass(now: float | None = None) -> BreakGlass | None:
    """Return the break-glass in effect, None without one (`now`: epoch seconds)."""
    now = time.time() if now is None else now
    rows = prepared_selects.recall(get_active_break_glass, _BREAK_GLASS.fetch_all)
    return next((row for row in rows if row.until > now and not _is_over(row)), None)


def _is_over(row: BreakGlass) -> bool:
    """Return whether its minutes are over, although the clock may have been set back."""
    return row.clock_offset is not None and row.until <= row.clock_offset + clock.steady()


def get_emergency_state() -> dict[str, Any]:
    """Return the active kill switch and break-glass for the banner of pages."""
    return {"killed": get_active_kill_switch(), "glass": get_active_break_glass()}


class SetKillSwitch(Command):
    """Turn the kill switch on or off."""

    def __init__(self, actor: str, on: bool, reason: str = "", kind: str = "human") -> None:
        super().__init__()
        self.actor, self.on, self.reason, self.kind = actor, on, fit_text(reason.strip(), 2000), kind

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        tx.affects_every_run = True
        prepared_selects.forget()
        KillSwitch.objects.create(on=self.on, by=self.actor, reason=self.reason, at=tx.now)
        name = f"killswitch.{'on' if self.on else 'off'}"
        tx.audit_acts.append(Act(name, self.kind, self.actor, detail={"reason": self.reason}, at=tx.now))
        self.answer: dict[str, Any] = {"on": self.on, "by": self.actor}


class StopApprovals(Command):
    """Deny the waiting calls of these approvals and revoke their unused permits. The answer is their number."""

    def __init__(self, approvals: list[str]) -> None:
        super().__init__()
        self.approvals = approvals

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return self.approvals

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = 0
        switch = get_active_kill_switch()
        if switch is None:
            return
        # The lock waits for votes and claims of other processes, and returns the rows as those left them.
        locked_rows = _find_open_approvals().filter(id__in=self.approvals).select_for_update(of=("self",))
        for row in locked_rows.select_related("call").order_by("run_id", "id"):
            with suppress(Undecryptable):  # nothing can be claimed in such a run, and the other runs are stopped
                self._stop(tx, row, f.Actor("kill_switch", switch.by))
                self.answer += 1

    def _stop(self, tx: Transaction, row: Approval, actor: f.Actor) -> None:
        memory = tx.load_run(row.run_id)
        card = memory.board.cards[row.call.ordinal]
        is_current = card.approval is None or card.approval.id == row.id
        if card.permit is not None and card.permit.id == row.id:
            tx.record(memory, f.PermitChanged(card.call_id, "revoked", row.id, tx.now), card)
        if not card.hard and is_current:
            if row.state == "approved" and card.approval and card.approval.id == row.id:
                tx.record(memory, f.ApprovalChanged(card.call_id, "revoked", id=row.id, at=tx.now), card)
            tx.record(memory, f.OutputDenied(card.call_id, reason=KILL_SWITCH_REASON, by=actor, at=tx.now), card)
        Approval.objects.filter(id=row.id).update(
            state="denied" if row.state == "pending" else "revoked", by_kind="kill_switch", by_name=actor.name
        )


def _find_open_approvals() -> QuerySet[Approval]:
    """Return the approvals that wait for people or are not used yet, except those decided where the agent runs."""
    unused_approvals = Approval.objects.filter(state__in=("pending", "approved"), claimed_at=0)
    return unused_approvals.exclude(opener="agent", channel="none")


def build_stops() -> list[StopApprovals]:
    """Return the commands that stop all open calls, none while off."""
    if not is_kill_switch_on():
        return []
    pks = list(_find_open_approvals().order_by("run_id", "id").values_list("id", flat=True))
    return [StopApprovals(pks[start : start + STOPPED_AT_ONCE]) for start in range(0, len(pks), STOPPED_AT_ONCE)]


def set_kill_switch(actor: str, on: bool, reason: str = "", kind: str = "human") -> dict[str, Any]:
    """Turn the kill switch on or off; return its state.

    `stopped` is the number of calls that it stopped. It is on before they are stopped, so that their number delays
    nothing. What other processes decided at that moment is stopped by the sweep, or at the latest before the switch is
    off.
    """
    if on:
        group_commit.execute(SetKillSwitch(actor, on, reason, kind))
    stop_count = sum(group_commit.execute(command) for command in build_stops())
    if not on:
        group_commit.execute(SetKillSwitch(actor, on, reason, kind))
    return {"on": on, "by": actor, "stopped": stop_count if on else 0}


class SetBreakGlass(Command):
    """Start break-glass for a number of minutes; 0 ends it."""

    def __init__(self, actor: str, reason: str, minutes: float, kind: str = "human") -> None:
        super().__init__()
        self.actor, self.reason, self.minutes, self.kind = actor, fit_text(reason.strip(), 2000), minutes, kind

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        tx.affects_every_run = True
        prepared_selects.forget()
        BreakGlass.objects.filter(ended_at=None, until__gt=tx.now).update(ended_at=tx.now)
        if not self.minutes:
            tx.audit_acts.append(Act("breakglass.ended", self.kind, self.actor, at=tx.now))
            self.answer = {"until": None}
            return
        if not self.reason:
            raise InvalidRequest("A reason is required.", code="reason_required")
        if not 0 < self.minutes <= MAX_BREAK_GLASS_MINUTES:
            raise InvalidRequest(f"Break-glass lasts at most {MAX_BREAK_GLASS_MINUTES} minutes.", code="too_long")
        row = BreakGlass.objects.create(
            by=self.actor, reason=self.reason, at=tx.now, until=tx.now + self.minutes * 60, clock_offset=clock.offset()
        )
        detail = {"reason": self.reason, "minutes": self.minutes}
        tx.audit_acts.append(Act("breakglass.on", self.kind, self.actor, detail=detail, at=tx.now))
        self.answer = {"until": row.until}
