"""Agreement of the server processes on the time: they move the pulse on, and notice a pause of all of them once."""

from __future__ import annotations

from django.db import transaction

from toolcards.clocks import BEAT_EVERY, Beat, clock
from toolcards.models import Approval, Pulse, Run

_FAR = 1e12  # epoch seconds; a lease without an end is beyond


def advance_pulse() -> float | None:
    """Move the pulse on to now; return the wall time at which it was before, None for the first beat ever.

    The first process after a pause writes its length into the row, which is locked: the others read it there.
    """
    with transaction.atomic():
        row = Pulse.objects.select_for_update().filter(pk=1).first()
        if row is None:
            first = clock.next_beat(None)
            _, made = Pulse.objects.get_or_create(pk=1, defaults=_pulse_columns(first))
            if made:
                return None
            row = Pulse.objects.select_for_update().get(pk=1)  # another process was faster
        Pulse.objects.filter(pk=1).update(**_pulse_columns(clock.next_beat(row.beat)))
    return row.at


def _pulse_columns(beat: Beat) -> dict[str, float]:
    return {"at": beat.wall, "steady": beat.steady, "paused": beat.paused, "resumed": beat.resumed}


def catch_up() -> None:
    """Agree on the time if this process last did so too long ago: it may have been stopped, or asleep, since."""
    if clock.is_stale:
        advance_pulse()


def follow_pulse() -> None:
    """Follow the pulse, and move it on where that is due: an idle installation writes nothing."""
    row = Pulse.objects.filter(pk=1).first()
    beat = row.beat if row else None
    if beat is not None:
        clock.follow(beat)
    if clock.must_announce(beat) or (_is_due(beat) and _is_anything_running_out()):
        advance_pulse()


def _is_due(beat: Beat | None) -> bool:
    return beat is None or clock.steady() - beat.steady >= BEAT_EVERY


def _is_anything_running_out() -> bool:
    permits = Approval.objects.filter(state="approved", claimed_at=0, permit_expires_at__gt=0)
    return Run.objects.active().filter(alive_until__lt=_FAR).exists() or permits.exists()
