"""The clocks of an installation: wall time, steady time, and working time.

- Wall time is what people see. Deadlines use it, although it can be set.
- Steady time counts real seconds: setting the clock does not move it. It begins at the wall time of the first start.
- Working time is steady time without pauses. A pause is a time in which no server process of the installation worked:
  all were down, stopped or asleep, or the database was not writable. Leases of agents and the short limits of
  permits run on working time, so that a pause of the server takes no time from agents.

The server processes agree on a `Beat`: one row that they move on while they work (gate/timekeeping.py).
Between two beats each process counts on by itself, for at most `PAUSE` seconds of working time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

PAUSE = 5.0  # seconds without a beat that count as a pause
BEAT_EVERY = 2.0  # seconds between two beats while there is something to count for
TOLERANCE = 1.0  # seconds that two clocks may differ and still count as showing the same


_SINCE_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
# Seconds since boot, including time asleep if the system counts it.
_read_seconds_since_boot = time.monotonic if _SINCE_BOOT is None else partial(time.clock_gettime, _SINCE_BOOT)


@dataclass(frozen=True, slots=True)
class Beat:
    """What the processes agree on. `paused`: length of all pauses; `resumed`: working time as the last one ended."""

    wall: float
    steady: float
    paused: float = 0.0
    resumed: float = 0.0

    @property
    def working(self) -> float:
        """The working time of this beat."""
        return self.steady - self.paused


class Clock:
    """The clocks of one process. `wall` and `elapsed` are its sources of time."""

    def __init__(
        self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = _read_seconds_since_boot
    ) -> None:
        self.wall, self.elapsed = wall, elapsed
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Drop all beats, as in a new process."""
        # One attribute, so that a reader in another thread never sees half of a change. The first part is steady time
        # minus elapsed time.
        self._state: tuple[float, Beat | None] = (self.wall() - self.elapsed(), None)

    def steady(self) -> float:
        """Return steady time in epoch seconds."""
        return self._state[0] + self.elapsed()

    def working(self) -> float:
        """Return working time in epoch seconds."""
        base, beat = self._state
        steady = base + self.elapsed()
        return steady if beat is None else min(steady, beat.steady + PAUSE) - beat.paused

    @property
    def is_stale(self) -> bool:
        """Whether this process must agree with the others before it counts on."""
        base, beat = self._state
        return beat is None or base + self.elapsed() - beat.steady > PAUSE

    @property
    def resumed(self) -> float:
        """The working time at the end of the last pause, or 0."""
        beat = self._state[1]
        return beat.resumed if beat else 0.0

    def offset(self) -> float:
        """Return how far wall time is ahead of steady time."""
        return _round_difference(self.wall() - self.steady())

    def to_wall(self, working: float) -> float:
        """Return the wall time of this working time, without further pauses."""
        return working + _round_difference(self.wall() - self.working())

    def is_recent(self, moment: float, seconds: float) -> bool:
        """Return whether this wall time is less than `seconds` ago.

        False for a moment in the future, beyond the difference of two computers' clocks.
        """
        return -PAUSE < self.wall() - moment < seconds

    # ------------------------------------------------------------ agreeing

    def must_announce(self, beat: Beat | None) -> bool:
        """Return whether this process must write a beat.

        It is new, or the wall clock was set.
        A process that starts later knows how far the wall clock is ahead from the last beat alone.
        """
        if beat is None or self._state[1] is None:
            return True
        return abs(self.wall() - self.steady() - (beat.wall - beat.steady)) >= TOLERANCE

    def next_beat(self, before: Beat | None) -> Beat:
        """Return the beat after the installation's last one, and count from it."""
        with self._lock:
            beat = self._after(before)
            self._state = (beat.steady - self.elapsed(), beat)
            return beat

    def follow(self, beat: Beat) -> None:
        """Count from a beat of another process, unless this one is ahead."""
        with self._lock:
            base, latest = self._state
            if latest is not None and beat.steady >= latest.steady:
                self._state = (max(base, beat.steady - self.elapsed()), beat)

    def _after(self, before: Beat | None) -> Beat:
        wall, steady, latest = self.wall(), self.steady(), self._state[1]
        if before is None:
            return replace(latest, wall=wall, steady=steady) if latest else Beat(wall, steady)
        if latest is None:  # a process that starts knows the time since the last beat by the wall clock alone
            steady = before.steady + max(0.0, wall - before.wall)
        steady = max(steady, before.steady)
        gap = steady - before.steady
        if gap <= PAUSE:
            return Beat(wall, steady, before.paused, before.resumed)
        pause_total = before.paused + gap
        return Beat(wall, steady, pause_total, steady - pause_total)


def _round_difference(difference: float) -> float:
    """Return the difference in whole seconds: small ones come from reading one clock after the other."""
    return float(round(difference)) if abs(difference) >= TOLERANCE else 0.0


clock = Clock()
