"""The part of a timeline that the reader zoomed into, and the windows that its links lead to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

SHORTEST = 20  # milliseconds
LATEST = 4_102_444_800_000  # the year 2100: later moments are no times of a run


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
    def around(cls, first: float, last: float) -> TimeWindow:
        """Return the window of a picture whose ends are in seconds."""
        start = math.floor(first * 1000)
        return cls(start, max(math.ceil(last * 1000), start + SHORTEST))

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
