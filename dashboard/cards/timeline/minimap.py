"""A long run at one glance: all its calls in at most 240 columns, and which of them the timeline above draws.

The columns are drawn as one path for each part; a link spans several of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from dashboard.cards.timeline.zoom import TimelineLinks
from toolcards.models import Run, ToolCall

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
