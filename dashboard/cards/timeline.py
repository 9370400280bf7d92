"""A run as a picture: a lane per agent, a bar per call, its three textures writing, waiting for a person, running."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from dashboard import url_helpers
from dashboard.cards import labels, minimap, safe_text
from dashboard.cards.timeline_lanes import TimedCall, TimelineLane, build_lanes, find_end, find_start
from dashboard.cards.timeline_window import TimeWindow
from toolcards.core.calls.call_json import summarize
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.models import Run, ToolCall

WIDTH, LEFT_MARGIN, RIGHT_MARGIN, TOP, ROW, BAR = 1100, 170, 20, 34, 20, 12
MAX_CALLS = 400  # bars
LETTER = 6.2  # width of a letter, about
WORDS = {"write": "writing", "wait": "waiting", "run": "running"}
SIGN = 14  # from the end of a bar to its name, with the sign of how the call ended between them


@dataclass(frozen=True, slots=True)
class BarPart:
    """One texture of a bar."""

    part: str
    x: float
    width: float


@dataclass
class TimelineBar:
    """One call; `name` is its tool as far as there is room, and may stand on the bar."""

    call: ToolCall
    said: str
    y: float
    pieces: list[BarPart]
    end: float
    state: str
    tool: str
    name: str = ""
    name_x: float = 0
    name_on: str = ""  # the part that it stands on


@dataclass(frozen=True, slots=True)
class LanePicture:
    """Where a lane stands, and what distinguishes it."""

    name: str
    title: str
    y: float
    height: float
    indent: int
    hue: int
    branch_height: float  # up to the lane that called it, 0 for one on the ground


def build_timeline(run: Run, around: int = 0, window: TimeWindow | None = None) -> dict[str, Any]:
    """Draw the run's newest calls, or a part of the run.

    The part is that around an ordinal, or a time window. Empty for a run without calls.
    """
    run_calls = ToolCall.objects.filter(run=run, removed=False)
    selected = _select_calls(run_calls, around, window)
    calls = [(call, call.as_shown_card()) for call in selected]
    timed_calls = [(call, card) for call, card in calls if find_start(card)]
    if not timed_calls:
        return {"bars": [], "run": run, "map": {"columns": []}, "window": window}
    moving = run.status in ("running", "waiting") and not around and not window
    scale, lanes, bars, height = _draw(run, timed_calls, moving, window)
    oldest, newest = calls[0][0].ordinal, calls[-1][0].ordinal
    span = url_helpers.format_duration(scale.span)
    return {
        "run": run, "bars": bars, "lanes": lanes, "height": height + 12, "width": WIDTH, "bar": BAR,
        "left": LEFT_MARGIN, "right": WIDTH - RIGHT_MARGIN,
        "ticks": scale.list_ticks(_find_begin(run_calls) or scale.first),
        "now": WIDTH - RIGHT_MARGIN if moving else 0, "bottom": height, "cut": len(calls) == MAX_CALLS < run.calls,
        "map": minimap.build_minimap(run, oldest, newest), "oldest": oldest, "newest": newest,
        "window": window, "zoom": TimeWindow.around(scale.first, scale.first + scale.span).build_neighbors(),
        **_find_neighbors(run_calls, oldest, newest),
        "sentence": f"{len(bars)} call{'s' * (len(bars) != 1)}, {len(lanes)} agent{'s' * (len(lanes) != 1)}, {span}",
        "table": [(bar.call, bar.said) for bar in bars],
    }  # fmt: skip


def _draw(
    run: Run, timed_calls: list[TimedCall], moving: bool, window: TimeWindow | None
) -> tuple[TimeScale, list[LanePicture], list[TimelineBar], float]:
    first = window.first if window else min(find_start(card) for _, card in timed_calls)
    last = time.time() if moving else max(find_end(card, 0) or find_start(card) for _, card in timed_calls)
    last = window.last if window else last
    scale = TimeScale(first, max(last - first, 0.05))
    if window:
        open_end = max(time.time(), last)
        timed_calls = [
            (call, card) for call, card in timed_calls if find_start(card) <= last and find_end(card, open_end) >= first
        ]
    lanes = build_lanes(timed_calls, run.agent, first, last)
    return scale, *_lay_out(lanes, scale, last)


def _select_calls(run_calls: QuerySet[ToolCall], around: int, window: TimeWindow | None) -> list[ToolCall]:
    if window:
        first, last = window.as_moments()
        rows = run_calls.filter(Q(started_at__lte=last) | Q(started_at=None))
        rows = rows.filter(Q(finished_at__gte=first) | Q(finished_at=None))
        return list(reversed(rows.order_by("-ordinal")[:MAX_CALLS]))
    if not around:
        return list(reversed(run_calls.order_by("-ordinal")[:MAX_CALLS]))
    before = list(reversed(run_calls.filter(ordinal__lt=around).order_by("-ordinal")[: MAX_CALLS // 2]))
    return [*before, *run_calls.filter(ordinal__gte=around).order_by("ordinal")[: MAX_CALLS - len(before)]]


def _find_begin(run_calls: QuerySet[ToolCall]) -> float:
    """Return when the first call of the run began, 0 if that is unknown."""
    started_at = run_calls.order_by("ordinal").values_list("started_at", flat=True).first()
    return started_at.timestamp() if started_at else 0.0


def _find_neighbors(run_calls: QuerySet[ToolCall], oldest: int, newest: int) -> dict[str, int]:
    """Return the centers of the windows before and after, 0 for a missing one."""
    ordinals = run_calls.values_list("ordinal", flat=True)
    earlier = ordinals.filter(ordinal__lt=oldest).order_by("-ordinal")[: MAX_CALLS // 2]
    later = ordinals.filter(ordinal__gt=newest).order_by("ordinal")[: MAX_CALLS // 2]
    return {"earlier": min(earlier, default=0), "later": max(later, default=0)}


@dataclass(frozen=True, slots=True)
class TimeScale:
    """From seconds to the picture's x."""

    first: float
    span: float

    def x(self, moment: float) -> float:
        """Return where that moment lies, at most at the picture's ends."""
        share = min(max((moment - self.first) / self.span, 0.0), 1.0)
        return round(LEFT_MARGIN + share * (WIDTH - LEFT_MARGIN - RIGHT_MARGIN), 1)

    def list_ticks(self, begin: float) -> list[tuple[float, str]]:
        """Return five moments, labeled by the time that has passed from `begin`."""
        moments = [self.first + self.span * number / 4 for number in range(5)]
        offsets = [max(0.0, moment - begin) for moment in moments]
        return [
            (self.x(moment), f"+{url_helpers.format_duration(seconds)}" if seconds >= 0.0005 else "0")
            for moment, seconds in zip(moments, offsets, strict=True)
        ]


def _lay_out(
    lanes: list[TimelineLane], scale: TimeScale, last: float
) -> tuple[list[LanePicture], list[TimelineBar], float]:
    bars: list[TimelineBar] = []
    pictures: list[LanePicture] = []
    y = float(TOP)
    tops: dict[int, float] = {}  # depth -> y of the last lane there
    for number, lane in enumerate(lanes):
        height = len(lane.row_ends) * ROW
        branch = y - tops[lane.depth - 1] if lane.depth and lane.depth - 1 in tops else 0.0
        pictures.append(LanePicture(lane.name, lane.title, y, height + 8, lane.depth * 12, number % 6, branch))
        tops[lane.depth] = y
        rows: dict[int, list[TimelineBar]] = {}
        for row, (call, card) in lane.calls:
            rows.setdefault(row, []).append(_build_bar(card, call, y + row * ROW, scale, last))
        for row_bars in rows.values():
            _place_names(row_bars)
        bars += sorted((bar for row_bars in rows.values() for bar in row_bars), key=lambda bar: bar.call.ordinal)
        y += height + 14
    return pictures, bars, y


def _build_bar(card: Card, call: ToolCall, y: float, scale: TimeScale, last: float) -> TimelineBar:
    times, end = card.times, find_end(card, last)
    marks_at = [
        ("write", times.started, times.available),
        ("wait", times.requested, times.decided or end if times.requested else 0),
    ]
    ran = card.state is not ToolCallState.OUTPUT_DENIED and not card.waiting
    marks_at.append(("run", max(times.decided, times.available) if ran else 0, end))
    if not times.available and not times.requested:
        marks_at = [("write", find_start(card), end)]
    phases = [(name, begin, stop) for name, begin, stop in marks_at if begin and stop and stop >= begin]
    pieces = [
        BarPart(name, scale.x(begin), round(max(3.0, scale.x(stop) - scale.x(begin)), 1))
        for name, begin, stop in phases
        if stop >= scale.first and begin <= scale.first + scale.span
    ]
    lengths = ", ".join(f"{WORDS[name]} {url_helpers.format_duration(stop - begin)}" for name, begin, stop in phases)
    label = f"{card.tool.name} {summarize(card)[:80]}: {labels.get_label(card).word.lower()}; {lengths}"
    return TimelineBar(
        call,
        safe_text.mark_text(label),
        y,
        pieces,
        max((piece.x + piece.width for piece in pieces), default=0),
        str(card.state) if card.finished else "",
        safe_text.mark_text(card.tool.name),
    )


def _get_width(piece: BarPart) -> float:
    return piece.width


def _place_names(bars: list[TimelineBar]) -> None:
    """Write each name after its bar, or on it, as far as there is room before the next bar of the row."""
    bars.sort(key=lambda bar: min((piece.x for piece in bar.pieces), default=0))
    for number, bar in enumerate(bars):
        following = bars[number + 1].pieces if number + 1 < len(bars) else []
        room_after = min((piece.x for piece in following), default=float(WIDTH)) - bar.end - SIGN - 4
        widest = max((piece for piece in bar.pieces if piece.part != "write"), key=_get_width, default=None)
        room_inside = widest.width - 8 if widest else 0.0
        room = room_after if room_after >= len(bar.tool) * LETTER else max(room_after, room_inside)
        letters = int(room // LETTER)
        if not bar.pieces or letters < min(4, len(bar.tool)):
            continue
        bar.name = bar.tool if len(bar.tool) <= letters else bar.tool[: letters - 1] + "…"
        bar.name_x = bar.end + SIGN
        if room != room_after and widest:
            bar.name_x, bar.name_on = widest.x + 4, widest.part
