"""Times and durations as people read them, and the duration strip of a card.

Times are in UTC; the page script `clock.js` shows them in the reader's time zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from toolcards.core.calls.call_json import compute_durations
from toolcards.core.calls.card import Card


def render_time(value: Any, form: str = "clock") -> SafeString | str:
    """Return a time as a <time> element.

    The page script shows it in the reader's time zone, or as an age.
    """
    time = _to_datetime(value)
    if time is None:
        return ""
    text = time.strftime("%H:%M:%S" if form == "clock" else "%d %b %H:%M")
    iso = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    title = f"{time:%d %b %Y %H:%M:%S} UTC"
    html = f'<time datetime="{iso}" data-time="{escape(form)}" title="{escape(title)}">{escape(text)}</time>'
    return mark_safe(html)  # noqa: S308 - each value was escaped where it was put in, and `iso` is digits and signs


def format_clock(value: Any) -> str:
    """Return a time in UTC, as in "23 Nov 06:33:09 UTC"."""
    time = _to_datetime(value)
    return f"{time:%d %b %H:%M:%S} UTC" if time else ""


def format_iso(value: Any) -> str:
    """Return a time in ISO 8601, in UTC."""
    time = _to_datetime(value)
    return time.isoformat(timespec="seconds").replace("+00:00", "Z") if time else ""


def format_duration(seconds: float) -> str:
    """Return a duration as in "3 min 10 s" or "12 ms"."""
    if seconds < 0.1:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    if whole_seconds < 3600:
        return (
            f"{whole_seconds // 60} min {whole_seconds % 60} s" if whole_seconds % 60 else f"{whole_seconds // 60} min"
        )
    return f"{whole_seconds // 3600} h {whole_seconds % 3600 // 60} min"


def _to_datetime(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    try:
        return datetime.fromtimestamp(value, UTC) if value else None
    except (ValueError, OverflowError, OSError, TypeError):  # an agent's clock
        return None


_PHASE_WORDS = {"write": "writing", "wait": "waiting", "run": "running"}
_PARTS = {name: part for part, name in _PHASE_WORDS.items()}
OPEN_SHARE = 60.0  # of the line, for a phase that has not ended and so has no length yet


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of the duration bar: its place on a line of 100, and its meaning."""

    part: str
    x: float
    width: float
    description: str


def compute_segments(card: Card) -> list[Segment]:
    """Return the phases: writing, waiting for a person, running.

    Those that ended have widths by their lengths. A call that waits ends with an open segment of a fixed width, so that
    the picture depends on the card alone and not on the clock.
    """
    parts = [(name, length) for name, length in _list_phases(card) if length is not None and length > 0]
    total = sum(length for _, length in parts) or 1
    widths = [max(2.0, length / total * 100) for _, length in parts]
    room = 100 - OPEN_SHARE if card.unanswered else 100.0
    segments, x = [], 0.0
    for (name, length), width in zip(parts, widths, strict=True):
        share = width / sum(widths) * room
        segments.append(Segment(name, round(x, 1), round(share, 1), f"{_PHASE_WORDS[name]} {format_duration(length)}"))
        x += share
    if card.unanswered:
        segments.append(Segment("wait", round(x, 1), round(100 - x, 1), _PHASE_WORDS["wait"]))
    return segments


def _list_phases(card: Card) -> list[tuple[str, float | None]]:
    """Return each phase with its length in seconds, as the API has it."""
    lengths = compute_durations(card)
    return [(part, None if (ms := lengths[name]) is None else ms / 1000) for name, part in _PARTS.items()]
