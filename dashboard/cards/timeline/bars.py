"""The places of everything in a timeline: lanes, bars with their textures, names and the scale of the time."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.cards import labels, safe_text
from dashboard.cards.timeline.lanes import TimelineLane, find_end, find_start
from dashboard.cards.times import format_duration
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.summaries.summary import summarize
from toolcards.models import ToolCall

WIDTH, LEFT_MARGIN, RIGHT_MARGIN, TOP, ROW, BAR = 1100, 180, 20, 36, 22, 14
INDENT, HUES = 10, 6  # of a lane for each caller above it; colors that lanes take in turns
MAX_NAMES = 160  # on bars
LETTER = 7.3  # width of a letter of 13, about
WORDS = {"write": "writing", "wait": "waiting", "run": "running"}
SIGN = 17  # from the end of a bar to its name, with the sign of how the call ended between them


@dataclass(frozen=True, slots=True)
class BarPart:
    """One texture of a bar."""

    part: str
    x: float
    width: float


@dataclass
class TimelineBar:
    """One call; `name` is its tool as far as there is room, and may be on the bar."""

    call: ToolCall
    description: str
    y: float
    pieces: list[BarPart]
    end: float
    state: str
    tool: str
    name: str = ""
    name_x: float = 0
    name_on: str = ""  # the part that it is on


@dataclass(frozen=True, slots=True)
class LanePicture:
    """The place of a lane, and what distinguishes it."""

    name: str
    title: str
    y: float
    height: float
    indent: int
    hue: int
    branch_height: float  # up to the lane that called it, 0 for one on the ground


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
        labels = _label_offsets([max(0.0, moment - begin) for moment in moments])
        return [(self.x(moment), label) for moment, label in zip(moments, labels, strict=True)]


def _label_offsets(offsets: list[float]) -> list[str]:
    """Return a label for each offset in seconds, precise enough to tell them apart."""
    labels = [f"+{format_duration(seconds)}" for seconds in offsets]
    if len(set(labels)) < len(labels):
        digits = 2 if offsets[1] - offsets[0] >= 0.01 else 3
        labels = [f"+{seconds:.{digits}f} s" for seconds in offsets]
    return ["0" if seconds < 0.0005 else label for seconds, label in zip(offsets, labels, strict=True)]


def lay_out(
    lanes: list[TimelineLane], scale: TimeScale, last: float
) -> tuple[list[LanePicture], list[TimelineBar], float]:
    """Return the lanes and bars, and the height of the picture."""
    bars: list[TimelineBar] = []
    pictures: list[LanePicture] = []
    y = float(TOP)
    tops: dict[int, float] = {}  # depth -> y of the last lane there
    for number, lane in enumerate(lanes):
        height = len(lane.row_ends) * ROW
        branch = y - tops[lane.depth - 1] if lane.depth and lane.depth - 1 in tops else 0.0
        pictures.append(LanePicture(lane.name, lane.title, y, height + 8, lane.depth * INDENT, number % HUES, branch))
        tops[lane.depth] = y
        rows: dict[int, list[TimelineBar]] = {}
        for row, (call, card) in lane.calls:
            agent = " › ".join(card.agent_path) if lane.is_shared else ""
            rows.setdefault(row, []).append(_build_bar(card, call, y + row * ROW, scale, last, agent))
        for row_bars in rows.values():
            place_names(row_bars)
        bars += sorted((bar for row_bars in rows.values() for bar in row_bars), key=lambda bar: bar.call.ordinal)
        y += height + 14
    _limit_names(bars)
    return pictures, bars, y


def _limit_names(bars: list[TimelineBar]) -> None:
    """Leave the names of the longest bars only; each name is an element of the page."""
    bars_with_names = sorted((bar for bar in bars if bar.name), key=lambda bar: bar.pieces[0].x - bar.end)
    for bar in bars_with_names[MAX_NAMES:]:
        bar.name = ""


def _build_bar(card: Card, call: ToolCall, y: float, scale: TimeScale, last: float, agent: str = "") -> TimelineBar:
    times, end = card.times, find_end(card, last)
    marks_at = [
        ("write", times.started, times.available),
        ("wait", times.requested, times.decided or end if times.requested else 0),
    ]
    ran = card.state is not ToolCallState.OUTPUT_DENIED and not card.unanswered
    marks_at.append(("run", max(times.decided, times.available) if ran else 0, end))
    if not times.available and not times.requested:
        marks_at = [("write", find_start(card), end)]
    phases = [(name, begin, stop) for name, begin, stop in marks_at if begin and stop and stop >= begin]
    phases = phases or [("run", find_start(card), find_start(card))]  # the clock of the agent went backwards
    pieces = [
        BarPart(name, scale.x(begin), round(max(3.0, scale.x(stop) - scale.x(begin)), 1))
        for name, begin, stop in phases
        if stop >= scale.first and begin <= scale.first + scale.span
    ]
    lengths = ", ".join(f"{WORDS[name]} {format_duration(stop - begin)}" for name, begin, stop in phases)
    owner = f"{agent}: " if agent else ""
    label = f"{owner}{summarize(card)[:100]}: {labels.get_label(card).word.lower()}; {lengths}"
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


def place_names(bars: list[TimelineBar]) -> None:
    """Write each name after its bar, or on it.

    Names end before the next bar of the row.
    """
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
