"""Quiet hours: until when a notification to people waits."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from toolcards.models.notifications import Webhook


def get_quiet_end(webhook: Webhook, severity: str, now: float) -> float:
    """Return the end of the current quiet hours, 0 for none.

    `critical` notifications are never delayed, nor are those in the `webhook` format.
    """
    if not webhook.quiet_from or not webhook.quiet_to or severity == "critical" or webhook.format == "webhook":
        return 0
    local_time = datetime.fromtimestamp(now, ZoneInfo(webhook.zone))
    start, end = (_parse_minute(local_time, text) for text in (webhook.quiet_from, webhook.quiet_to))
    minute = local_time.hour * 60 + local_time.minute
    is_quiet = start <= minute < end if start <= end else minute >= start or minute < end
    if not is_quiet or start == end:
        return 0
    return now + ((end - minute) % 1440) * 60 - local_time.second


def _parse_minute(local_time: datetime, text: str) -> int:
    hour, _, minute = text.partition(":")
    return int(hour) * 60 + int(minute or 0)
