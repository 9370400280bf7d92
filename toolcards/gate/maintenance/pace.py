"""Background work that rests as long as it works, so that the writers of other processes get their turn."""

from __future__ import annotations

import time

LONGEST_PAUSE = 1.0  # seconds


class Pace:
    """Lets background work rest as long as it has worked, at most half a core."""

    def __init__(self) -> None:
        self._resumed = time.monotonic()

    def pause(self) -> None:
        """Sleep as long as the work since the last pause took."""
        time.sleep(min(time.monotonic() - self._resumed, LONGEST_PAUSE))
        self._resumed = time.monotonic()
