"""The part of a timeline that the reader zoomed into, and the addresses of other parts, closer and wider ones."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dashboard import url_helpers
from toolcards.models import Run, ToolCall

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


class TimelineLinks:
    """Builds the addresses of one timeline; they keep its form, a picture or a table."""

    def __init__(self, run: Run, *, as_table: bool) -> None:
        self._run, self._as_table = run, as_table

    @property
    def whole_url(self) -> str:
        """Return the newest calls of the run, which follow the clock."""
        return self._build()

    def build_around(self, ordinal: int) -> str:
        """Return the part around a call, "" for none."""
        return self._build(around=ordinal) if ordinal else ""

    def build_zoom(self, window: TimeWindow, latest: int) -> dict[str, str]:
        """Return the addresses of other windows.

        A window of the `latest` milliseconds gets longer or shorter up to now. `pace` holds a window that follows the
        clock, and lets another one follow it.
        """
        neighbors = window.build_neighbors()
        urls = {name: self._build_window(neighbor) for name, neighbor in neighbors.items()}
        urls["now"] = self._build(latest=window.quarter)
        if latest:
            urls |= {name: self._build(latest=neighbors[name].length) for name in ("closer", "wider")}
        urls["pace"] = urls["shown"] if latest else self._build(latest=window.length)
        return urls

    def build_other_form(self, window: TimeWindow | None, latest: int, around: int) -> str:
        """Return the same part of the run in its other form."""
        links = TimelineLinks(self._run, as_table=not self._as_table)
        if latest:
            return links._build(latest=latest)
        return links._build_window(window) if window else links._build(around=around)

    def _build_window(self, window: TimeWindow) -> str:
        return self._build(start=window.start, end=window.end)

    def _build(self, **part: int) -> str:
        query = {"table": int(self._as_table), **part}
        return url_helpers.build_run_url(
            self._run.name, self._run.source.name, tab="timeline", **{key: query[key] for key in query if query[key]}
        )


# A long run at one glance: all its calls in at most 240 columns, and which of them the timeline above draws.
#
# The columns are drawn as one path for each part; a link spans several of them.
MIN_CALLS = 300  # calls; a shorter run is drawn whole
MAX_COLUMNS = 240
LINKS = 40
WIDTH, HEIGHT = 960, 36
# In the order they are stacked, from the ground up: part, its word, and the states that count to it.
PARTS = (
    ("done", "done", ("output-available",)),
    ("bad", "failed or denied", ("output-error", "output-denied")),
    ("ask", "waiting", ("approval-requested",)),
    ("open", "open", ()),
)


@dataclass(frozen=True, slots=True)
class MinimapLink:
    """Some calls that follow each other: where their link is, its text, and where the timeline would begin."""

    x: float
    width: float
    label: str
    url: str
    first: int
    last: int
    counts: tuple[int, ...]  # of its calls, in the order of `PARTS`


Calls = list[tuple[int, str]]  # ordinals and states


def build_minimap(run: Run, first: int, last: int, links: TimelineLinks) -> dict[str, Any]:
    """Draw all calls of the run, with the visible window marked.

    `first` and `last` are the window's ordinals. Empty for a short run.
    """
    if run.calls <= MIN_CALLS:
        return {"links": []}
    rows = ToolCall.objects.filter(run=run, removed=False).order_by("ordinal")
    calls = list(rows.values_list("ordinal", "state"))
    if len(calls) <= MIN_CALLS:
        return {"links": []}
    columns = _split(calls, MAX_COLUMNS)
    inside = [number for number, part in enumerate(columns) if part[-1][0] >= first and part[0][0] <= last]
    column = WIDTH / len(columns)
    return {
        "links": [_build_link(part, number, links) for number, part in enumerate(_split(calls, LINKS))],
        "paths": _draw_columns(columns), "words": [word for _, word, _ in PARTS], "total": len(calls),
        "width": WIDTH, "height": HEIGHT,
        "from": round(inside[0] * column, 2) if inside else 0, "span": round(len(inside) * column, 2),
    }  # fmt: skip


def _split(calls: Calls, count: int) -> list[Calls]:
    """Return the calls in at most `count` parts that are equally long."""
    count = min(count, len(calls))
    return [calls[number * len(calls) // count : (number + 1) * len(calls) // count] for number in range(count)]


def _count_states(calls: Calls) -> list[int]:
    count_by_state = Counter(state for _, state in calls)
    counts = [sum(count_by_state[state] for state in states) for _, _, states in PARTS]
    counts[-1] = len(calls) - sum(counts)  # what no other part counts
    return counts


def _draw_columns(columns: list[Calls]) -> list[tuple[str, str]]:
    """Return each part with the path of its slabs."""
    width = WIDTH / len(columns)
    slabs: dict[str, list[str]] = {part: [] for part, _, _ in PARTS}
    for number, calls in enumerate(columns):
        ground = float(HEIGHT)
        for (part, _, _), count in zip(PARTS, _count_states(calls), strict=True):
            if count:
                top = ground - count / len(calls) * HEIGHT
                slabs[part].append(f"M{number * width:.2f} {ground:.2f}h{width:.2f}V{top:.2f}h-{width:.2f}z")
                ground = top
    return [(part, "".join(places)) for part, places in slabs.items() if places]


def _build_link(calls: Calls, number: int, links: TimelineLinks) -> MinimapLink:
    counts = _count_states(calls)
    label = ", ".join(f"{count} {word}" for (_, word, _), count in zip(PARTS, counts, strict=True) if count)
    first, last, width = calls[0][0], calls[-1][0], WIDTH / LINKS
    return MinimapLink(
        round(number * width, 2), round(width, 2), f"Calls {first} to {last}: {label}",
        links.build_around((first + last) // 2), first, last, tuple(counts),
    )  # fmt: skip
