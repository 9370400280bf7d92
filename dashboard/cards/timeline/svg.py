"""The timeline's picture as SVG: a link of two elements for each bar, and one path for all parts of one texture.

Written without the template engine; all values are numbers or escaped where they are inserted.
"""

from __future__ import annotations

from collections import defaultdict
from html import escape

from django.utils.safestring import SafeString, mark_safe

from dashboard.cards.safe_text import mark_text
from dashboard.cards.timeline.bars import BAR, LEFT_MARGIN, LETTER, RIGHT_MARGIN, WIDTH, LanePicture, TimelineBar

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
