"""The part of a timeline that the reader zoomed into, and the windows that its links lead to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

SHORTEST = 20  # milliseconds
LATEST = 4_102_444_800_000  # the year 2100: later moments are no times of a run
LONGEST = 400 * 86_400_000  # milliseconds of a window that follows the clock


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """From one moment to another, in milliseconds since 1970, as a query has them."""

    start: int
    end: int

    @classmethod
    def read(cls, start: int, end: int) -> TimeWindow | None:
        """Return the window of a query, None if it names none."""
        return cls(start, end) if start and end - start >= SHORTEST and end < LATEST else None

    @classmethod
    def ending(cls, last: float, length: int) -> TimeWindow:
        """Return the `length` milliseconds up to a moment in seconds."""
        end = math.ceil(last * 1000)
        return cls(end - length, end)

    @classmethod
    def around(cls, first: float, last: float) -> TimeWindow:
        """Return the window of a picture whose ends are in seconds."""
        start = math.floor(first * 1000)
        return cls(start, max(math.ceil(last * 1000), start + SHORTEST))

    @property
    def length(self) -> int:
        """Return how many milliseconds it has."""
        return self.end - self.start

    @property
    def quarter(self) -> int:
        """Return a quarter of its length, at least the shortest."""
        return max(self.length // 4, SHORTEST)

    @property
    def first(self) -> float:
        """Return its beginning in seconds."""
        return self.start / 1000

    @property
    def last(self) -> float:
        """Return its end in seconds."""
        return self.end / 1000

    def as_moments(self) -> tuple[datetime, datetime]:
        """Return its ends as the database compares them."""
        return datetime.fromtimestamp(self.first, UTC), datetime.fromtimestamp(self.last, UTC)

    @staticmethod
    def read_length(milliseconds: int) -> int:
        """Return the length of a window that follows the clock.

        0 if the query names none.
        """
        return milliseconds if SHORTEST <= milliseconds <= LONGEST else 0

    def build_neighbors(self) -> dict[str, TimeWindow]:
        """Return it, half of it, twice of it, and its neighbors."""
        span = self.end - self.start
        quarter = (span - max(span // 2, SHORTEST)) // 2
        return {
            "shown": self,
            "closer": TimeWindow(self.start + quarter, self.end - quarter),
            "wider": TimeWindow(self.start - span // 2, self.end + span // 2),
            "before": TimeWindow(self.start - span // 2, self.end - span // 2),
            "after": TimeWindow(self.start + span // 2, self.end + span // 2),
        }
