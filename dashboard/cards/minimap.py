"""A long run at one glance: all its calls in at most 240 columns, and which of them the timeline below draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolcards.models import Run, ToolCall

MIN_CALLS = 300  # calls; a shorter run is drawn whole
MAX_COLUMNS = 240
WIDTH, HEIGHT = 960, 36
# In the order they are stacked, from the ground up: part, its word, and the states that count to it.
PARTS = (
    ("done", "done", ("output-available",)),
    ("bad", "failed or denied", ("output-error", "output-denied")),
    ("ask", "waiting", ("approval-requested",)),
    ("open", "open", ()),
)


@dataclass(frozen=True, slots=True)
class MinimapPart:
    """One part of a column."""

    part: str
    y: float
    high: float


@dataclass(frozen=True, slots=True)
class MinimapColumn:
    """Some calls that follow each other: where the column stands, what it says, and where the timeline would begin."""

    x: float
    wide: float
    slabs: list[MinimapPart]
    said: str
    middle: int
    first: int
    last: int
    counts: tuple[int, ...]  # of its calls, in the order of `PARTS`


def build_minimap(run: Run, first: int, last: int) -> dict[str, Any]:
    """Draw all calls of the run, with the visible window marked.

    `first` and `last` are the window's ordinals. Empty for a short run.
    """
    if run.calls <= MIN_CALLS:
        return {"columns": []}
    rows = ToolCall.objects.filter(run=run, removed=False).order_by("ordinal")
    calls = list(rows.values_list("ordinal", "state"))
    if len(calls) <= MIN_CALLS:
        return {"columns": []}
    count = min(MAX_COLUMNS, len(calls))
    wide = WIDTH / count
    parts = [calls[n * len(calls) // count : (n + 1) * len(calls) // count] for n in range(count)]
    columns = [_build_column(part, n * wide, wide) for n, part in enumerate(parts)]
    inside = [
        column for column, part in zip(columns, parts, strict=True) if part[-1][0] >= first and part[0][0] <= last
    ]
    return {
        "columns": columns, "words": [word for _, word, _ in PARTS], "total": len(calls),
        "width": WIDTH, "height": HEIGHT,
        "from": inside[0].x if inside else 0, "span": (inside[-1].x - inside[0].x + wide) if inside else 0,
    }  # fmt: skip


def _build_column(calls: list[tuple[int, str]], x: float, wide: float) -> MinimapColumn:
    counts = [sum(state in states for _, state in calls) for _, _, states in PARTS]
    counts[-1] = len(calls) - sum(counts)  # what no other part counts
    slabs, ground = [], float(HEIGHT)
    for (part, _, _), count in zip(PARTS, counts, strict=True):
        if count:
            high = round(count / len(calls) * HEIGHT, 2)
            ground -= high
            slabs.append(MinimapPart(part, round(ground, 2), high))
    label = ", ".join(f"{count} {word}" for (_, word, _), count in zip(PARTS, counts, strict=True) if count)
    first, last = calls[0][0], calls[-1][0]
    return MinimapColumn(
        round(x, 2), round(wide, 2), slabs, f"Calls {first} to {last}: {label}", (first + last) // 2, first, last,
        tuple(counts),
    )  # fmt: skip
