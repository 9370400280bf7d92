"""The processes' agreement on the time: they advance a shared pulse, and detect pauses of the whole installation."""

from __future__ import annotations

from django.db import transaction

from toolcards.clocks import BEAT_EVERY, Beat, clock
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Pulse, Run

_NO_END = 1e12  # epoch seconds; leases without an end are later


class AdvancePulse(Command):
    """Advance the pulse, which also proves that this process can write. The answer is that of `advance_pulse`."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = advance_pulse()


def advance_pulse() -> float | None:
    """Move the pulse to the present.

    Return the wall time of the previous beat, None before the first one.
    After a pause, the first process writes its length into the locked row, where the others read it.
    """
    with transaction.atomic():
        row = Pulse.objects.select_for_update().filter(pk=1).first()
        if row is None:
            first = clock.next_beat(None)
            _, is_new = Pulse.objects.get_or_create(pk=1, defaults=_pulse_columns(first))
            if is_new:
                return None
            row = Pulse.objects.select_for_update().get(pk=1)  # another process was faster
        Pulse.objects.filter(pk=1).update(**_pulse_columns(clock.next_beat(row.beat)))
    return row.at


def _pulse_columns(beat: Beat) -> dict[str, float]:
    return {"at": beat.wall, "steady": beat.steady, "paused": beat.paused, "resumed": beat.resumed}


def follow_pulse() -> None:
    """Follow the pulse and advance it when due.

    An idle installation does not write.
    """
    row = Pulse.objects.filter(pk=1).first()
    beat = row.beat if row else None
    if beat is not None:
        clock.follow(beat)
    if clock.must_announce(beat) or (_is_due(beat) and is_anything_running_out()):
        advance_pulse()


def _is_due(beat: Beat | None) -> bool:
    return beat is None or clock.steady() - beat.steady >= BEAT_EVERY


def is_anything_running_out() -> bool:
    """Return whether a lease or a permit has an end."""
    permits = Approval.objects.filter(state="approved", claimed_at=0, permit_expires_at__gt=0)
    return Run.objects.active().filter(alive_until__lt=_NO_END).exists() or permits.exists()
