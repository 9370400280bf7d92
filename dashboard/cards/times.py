"""Times and durations as people read them.

Times are in UTC; the page script `clock.js` shows them in the reader's time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import Any

from django.utils.safestring import SafeString, mark_safe


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
