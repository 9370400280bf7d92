"""A run as a picture: a lane per agent, a bar per call, its three textures writing, waiting for a person, running."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from dashboard import url_helpers
from dashboard.cards import labels, minimap, safe_text
from toolcards.core.calls.call_json import summarize
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.models import Run, ToolCall

WIDTH, LEFT_MARGIN, TOP, ROW, BAR = 1100, 150, 34, 18, 10
MAX_CALLS = 400  # bars


@dataclass(frozen=True, slots=True)
class BarPart:
    """One texture of a bar."""

    part: str
    x: float
    width: float


@dataclass
class TimelineBar:
    """One call."""

    call: ToolCall
    said: str
    y: float
    pieces: list[BarPart]
    end: float
    state: str


@dataclass
class TimelineLane:
    """One agent; its calls stand in as many rows as run at a time."""

    name: str
    y: float = 0
    rows: list[float] = field(default_factory=list)  # where each row is free again
    bars: list[tuple[int, Card, ToolCall]] = field(default_factory=list)


def build_timeline(run: Run, around: int = 0) -> dict[str, Any]:
    """Draw the run's newest calls, or those around an ordinal.

    Empty for a run without calls.
    """
    calls = [(call, call.as_shown_card()) for call in _select_calls(run, around)]
    timed = [(call, card) for call, card in calls if _find_start(card)]
    if not timed:
        return {"bars": [], "run": run, "map": {"columns": []}}
    oldest, newest = calls[0][0].ordinal, calls[-1][0].ordinal
    moving = run.status in ("running", "waiting") and not around
    first = min(_find_start(card) for _, card in timed)
    last = time.time() if moving else max(_find_end(card, 0) or _find_start(card) for _, card in timed)
    scale = TimeScale(first, max(last - first, 0.05))
    span = url_helpers.format_duration(scale.span)
    lanes = _build_lanes(timed, run, last)
    bars, height = _lay_out(lanes, scale, last)
    return {
        "run": run, "bars": bars, "lanes": lanes, "height": height + 12, "width": WIDTH, "bar": BAR,
        "left": LEFT_MARGIN, "ticks": scale.ticks(),
        "now": WIDTH - 20 if moving else 0, "bottom": height, "cut": run.calls > len(calls),
        "map": minimap.build_minimap(run, oldest, newest), "oldest": oldest, "newest": newest,
        **_find_neighbors(run, oldest, newest),
        "sentence": f"{len(bars)} calls, {len(lanes)} agent{'s' * (len(lanes) != 1)}, {span}",
        "table": [(bar.call, bar.said) for bar in bars],
    }  # fmt: skip


def _select_calls(run: Run, around: int) -> list[ToolCall]:
    rows = ToolCall.objects.filter(run=run, removed=False)
    if not around:
        return list(reversed(rows.order_by("-ordinal")[:MAX_CALLS]))
    before = list(reversed(rows.filter(ordinal__lt=around).order_by("-ordinal")[: MAX_CALLS // 2]))
    return [*before, *rows.filter(ordinal__gte=around).order_by("ordinal")[: MAX_CALLS - len(before)]]


def _find_neighbors(run: Run, oldest: int, newest: int) -> dict[str, int]:
    """Return the centers of the windows before and after, 0 for a missing one."""
    rows = ToolCall.objects.filter(run=run, removed=False)
    earlier = rows.filter(ordinal__lt=oldest).order_by("-ordinal").values_list("ordinal", flat=True)[: MAX_CALLS // 2]
    later = rows.filter(ordinal__gt=newest).order_by("ordinal").values_list("ordinal", flat=True)[: MAX_CALLS // 2]
    return {"earlier": min(earlier, default=0), "later": max(later, default=0)}


@dataclass(frozen=True, slots=True)
class TimeScale:
    """From seconds to the picture's x."""

    first: float
    span: float

    def x(self, time: float) -> float:
        """Return where that moment lies."""
        return round(LEFT_MARGIN + (time - self.first) / self.span * (WIDTH - LEFT_MARGIN - 20), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Return five moments with their labels."""
        return [
            (self.x(self.first + self.span * n / 4), f"+{url_helpers.format_duration(self.span * n / 4)}" if n else "0")
            for n in range(5)
        ]


def _build_lanes(timed: list[tuple[ToolCall, Card]], run: Run, last: float) -> list[TimelineLane]:
    lanes: dict[str, TimelineLane] = {}
    gap = 0.02 * (last - min(_find_start(card) for _, card in timed))  # room for the sign of how it ended
    for call, card in timed:
        name = " › ".join(card.agent_path) or run.agent or "agent"
        lane = lanes.setdefault(name, TimelineLane(name))
        begin, end = _find_start(card), _find_end(card, last)
        row = next((n for n, free in enumerate(lane.rows) if free <= begin), len(lane.rows))
        lane.rows[row : row + 1] = [end + gap]
        lane.bars.append((row, card, call))
    return list(lanes.values())


def _lay_out(lanes: list[TimelineLane], scale: TimeScale, last: float) -> tuple[list[TimelineBar], float]:
    bars, y = [], float(TOP)
    for lane in lanes:
        lane.y = y
        bars += [_build_bar(card, call, y + row * ROW, scale, last) for row, card, call in lane.bars]
        y += len(lane.rows) * ROW + 14
    return bars, y


def _build_bar(card: Card, call: ToolCall, y: float, scale: TimeScale, last: float) -> TimelineBar:
    times, end = card.times, _find_end(card, last)
    marks_at = [
        ("write", times.started, times.available),
        ("wait", times.requested, times.decided or end if times.requested else 0),
    ]
    ran = card.state is not ToolCallState.OUTPUT_DENIED and not card.waiting
    marks_at.append(("run", max(times.decided, times.available) if ran else 0, end))
    if not times.available and not times.requested:
        marks_at = [("write", _find_start(card), end)]
    pieces = [
        BarPart(name, scale.x(begin), round(max(3.0, scale.x(stop) - scale.x(begin)), 1))
        for name, begin, stop in marks_at
        if begin and stop and stop >= begin
    ]
    label = f"{card.tool.name} {summarize(card)[:80]}: {labels.get_label(card).word.lower()}"
    return TimelineBar(
        call,
        safe_text.mark_text(label),
        y,
        pieces,
        max((piece.x + piece.width for piece in pieces), default=0),
        str(card.state) if card.finished else "",
    )


def _find_start(card: Card) -> float:
    times = card.times
    return times.started or times.available or times.requested


def _find_end(card: Card, last: float) -> float:
    if card.finished or not last:
        return card.times.finished or last or _find_start(card)
    return last
