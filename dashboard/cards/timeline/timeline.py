"""A run as a picture: a lane per agent, a bar per call, its three textures writing, waiting for a person, running."""

from __future__ import annotations

import time
from typing import Any

from django.db.models import Q, QuerySet

from dashboard.cards.timeline import minimap, svg
from dashboard.cards.timeline.bars import LEFT_MARGIN, RIGHT_MARGIN, WIDTH, LanePicture, TimelineBar, TimeScale, lay_out
from dashboard.cards.timeline.lanes import TimedCall, build_lanes, find_end, find_start
from dashboard.cards.timeline.zoom import TimelineLinks, TimeWindow
from dashboard.cards.times import format_duration
from toolcards.models import Run, ToolCall

MAX_CALLS = 400  # bars
ACTIVE = ("running", "waiting")


def build_timeline(
    run: Run, around: int = 0, window: TimeWindow | None = None, *, latest: int = 0, as_table: bool = False
) -> dict[str, Any]:
    """Draw the run's newest calls, or a part of the run.

    The part is that around an ordinal, a time window, or the `latest` milliseconds, which follow the clock while the
    run is active. `as_table` gives texts instead of a picture. Empty for a run without calls.
    """
    run_calls = ToolCall.objects.filter(run=run, removed=False)
    is_active = run.status in ACTIVE
    moving = is_active and not around and (bool(latest) or not window)
    if latest:
        window = TimeWindow.ending(_find_last_moment(run), latest)
    links = TimelineLinks(run, as_table=as_table)
    context: dict[str, Any] = {
        "run": run, "window": window, "latest": latest, "is_active": is_active, "as_table": as_table, "around": around,
        "bars": [], "map": {"links": []}, "most": MAX_CALLS, "whole": links.whole_url,
        "zoom": links.build_zoom(window, latest) if window else {},
    }  # fmt: skip
    selected_calls = _select_calls(run_calls, around, window)
    calls = [(call, call.as_shown_card()) for call in selected_calls]
    timed_calls = [TimedCall(call, card) for call, card in calls if find_start(card)]
    if not timed_calls:
        return context
    scale, lanes, bars, height = _draw(run, timed_calls, moving, window)
    oldest, newest = calls[0][0].ordinal, calls[-1][0].ordinal
    span = format_duration(scale.span)
    shown_window = TimeWindow.around(scale.first, scale.first + scale.span)
    neighbors = _find_neighbors(run_calls, oldest, newest)
    if not as_table:
        now = WIDTH - RIGHT_MARGIN if moving else 0
        ticks = scale.list_ticks(_find_begin(run_calls) or scale.first)
        context["picture"] = svg.render_picture(lanes, bars, ticks, height, now)
    return context | {
        "bars": bars, "height": height + 12, "width": WIDTH, "left": LEFT_MARGIN, "right": WIDTH - RIGHT_MARGIN,
        "moving": moving, "bottom": height, "cut": len(calls) == MAX_CALLS < run.calls,
        "map": minimap.build_minimap(run, oldest, newest, links), "oldest": oldest, "newest": newest,
        "shown": shown_window, "zoom": links.build_zoom(shown_window, latest),
        "other_form": links.build_other_form(window, latest, around),
        **{name: links.build_around(center) for name, center in neighbors.items()},
        "sentence": f"{len(bars)} call{'s' * (len(bars) != 1)}, {len(lanes)} agent{'s' * (len(lanes) != 1)}, {span}",
    }  # fmt: skip


def _find_last_moment(run: Run) -> float:
    """Return where the latest part of the run ends: now, or when the run ended."""
    return time.time() if run.status in ACTIVE else (run.ended_at or run.updated_at).timestamp()


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
            timed_call
            for timed_call in timed_calls
            if find_start(timed_call.card) <= last and find_end(timed_call.card, open_end) >= first
        ]
    return scale, *lay_out(build_lanes(timed_calls, run.agent, first, last), scale, last)


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
