"""A run as a picture: a lane per agent, a bar per call, its three textures writing, waiting for a person, running."""

from __future__ import annotations

import time
from collections import defaultdict
from html import escape
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.safestring import SafeString, mark_safe

from dashboard.cards.safe_text import mark_text
from dashboard.cards.timeline import zoom
from dashboard.cards.timeline.bars import (
    BAR,
    LEFT_MARGIN,
    LETTER,
    RIGHT_MARGIN,
    WIDTH,
    LanePicture,
    TimelineBar,
    TimeScale,
    lay_out,
)
from dashboard.cards.timeline.lanes import TimedCall, build_lanes, find_end, find_start
from dashboard.cards.timeline.zoom import TimelineLinks, TimeWindow
from dashboard.cards.times import format_duration
from toolcards.models import Run, ToolCall

# The timeline's picture as SVG: a link of two elements for each bar, and one path for all parts of one texture.
#
# Written without the template engine; all values are numbers or escaped where they are inserted.
TOP_OF_LINES = 24
_HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V6"/></pattern></defs>'
)
# How a call ended, in a field of 9 by 12 to the right of its bar: where the sign begins, and its line from there.
_SIGNS = {
    "output-available": (1, 5, "l2.5 2.5 4.5-5.5"),
    "output-error": (1, 2, "l6 6m0-6-6 6"),
    "output-denied": (4.5, 1, "a4 4 0 1 0 .01 0zm-2.5 7 5-6"),
}


def render_picture(
    lanes: list[LanePicture], bars: list[TimelineBar], ticks: list[tuple[float, str]], bottom: float, now: float
) -> SafeString:
    """Return the content of the timeline's `<svg>`.

    `now` is where the present moment lies, 0 for a picture that does not move.
    """
    parts = [_HATCH, *_render_lanes(lanes), *_render_ticks(ticks, bottom)]
    if now:
        parts.append(f'<path class="now" d="M{now:g} {TOP_OF_LINES}V{bottom:.0f}"/>')
    parts += [*_render_textures(bars), *map(_render_bar, bars)]
    return mark_safe("".join(parts))  # noqa: S308 - each text was escaped where it was put in


def _render_lanes(lanes: list[LanePicture]) -> list[str]:
    right = WIDTH - RIGHT_MARGIN + 8
    bands = [f"M4 {lane.y - 5:.0f}H{right}v{lane.height + 6:.0f}H4z" for lane in lanes[1::2]]
    branches, dots, names = [], defaultdict(list), []
    for lane in lanes:
        x, y = lane.indent + 14, lane.y + BAR / 2
        if lane.branch_height:
            branches.append(f"M{x - 12} {y - lane.branch_height + 8:.0f}V{y:.0f}h6")
        dots[lane.hue].append(f"M{x - 4} {y:.0f}a4 4 0 1 0 8 0a4 4 0 1 0-8 0")
        room = int((LEFT_MARGIN - 4 - x - 10) / LETTER)
        name, title = mark_text(lane.name), escape(mark_text(lane.title))
        name = name if len(name) <= room else name[: room - 1] + "…"
        names.append(f'<text class="lane" x="{x + 10}" y="{y + 4:.0f}" data-detail="{title}">{escape(name)}</text>')
    paths = [_render_path("band", bands), _render_path("branch", branches)]
    return [*paths, *(_render_path(f"hue{hue}", circles) for hue, circles in dots.items()), *names]


def _render_ticks(ticks: list[tuple[float, str]], bottom: float) -> list[str]:
    lines = _render_path("grid", [f"M{x:g} {TOP_OF_LINES}V{bottom:.0f}" for x, _ in ticks])
    anchors = ["middle"] * (len(ticks) - 1) + ["end"]
    return [lines] + [
        f'<text x="{x:g}" y="16" text-anchor="{anchor}">{escape(label)}</text>'
        for (x, label), anchor in zip(ticks, anchors, strict=True)
    ]


def _render_textures(bars: list[TimelineBar]) -> list[str]:
    """Return a path for each texture and each sign."""
    textures, signs = defaultdict(list), defaultdict(list)
    for bar in bars:
        for piece in bar.pieces:
            name = "run bad" if piece.part == "run" and bar.state == "output-error" else piece.part
            textures[name].append(f"M{piece.x:g} {bar.y:.0f}h{piece.width:g}v{BAR}h-{piece.width:g}z")
        if bar.pieces and bar.state in _SIGNS:
            x, y, line = _SIGNS[bar.state]
            signs[bar.state].append(f"M{bar.end + 4 + x:g} {bar.y + (BAR - 12) / 2 + y:.0f}{line}")
    paths = [_render_path(name, places) for name, places in textures.items()]
    return paths + [_render_path(f"glyph {state}", places) for state, places in signs.items()]


def _render_path(name: str, parts: list[str]) -> str:
    return f'<path class="{name}" d="{"".join(parts)}"/>' if parts else ""


def _render_bar(bar: TimelineBar) -> str:
    """Return the link over a bar, "" for one outside of the picture."""
    if not bar.pieces:
        return ""
    x = min(piece.x for piece in bar.pieces)
    name = ""
    if bar.name:
        name = (
            f'<text class="name {bar.name_on}" x="{bar.name_x:.1f}" y="{bar.y + BAR - 3:.0f}" aria-hidden="true">'
            f"{escape(bar.name)}</text>"
        )
    return (
        f'<a href="/calls/{escape(bar.call.public_id)}/" aria-label="{escape(bar.description)}">'
        f'<rect x="{x:g}" y="{bar.y:.0f}" width="{bar.end - x:.1f}" height="{BAR}" rx="2"/>{name}</a>'
    )


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
        context["picture"] = render_picture(lanes, bars, ticks, height, now)
    return context | {
        "bars": bars, "height": height + 12, "width": WIDTH, "left": LEFT_MARGIN, "right": WIDTH - RIGHT_MARGIN,
        "moving": moving, "bottom": height, "cut": len(calls) == MAX_CALLS < run.calls,
        "map": zoom.build_minimap(run, oldest, newest, links), "oldest": oldest, "newest": newest,
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
