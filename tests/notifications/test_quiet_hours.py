"""Quiet hours: what they hold back, and until when."""

from __future__ import annotations

from datetime import UTC, datetime

from toolcards.models import Webhook
from toolcards.notifications.quiet_hours import get_quiet_end


def test_quiet_hours_hold_back_what_is_not_critical() -> None:
    webhook = Webhook(format="slack", quiet_from="22:00", quiet_to="07:00", zone="Europe/Rome")
    night = datetime(2026, 1, 10, 23, 30, tzinfo=UTC).timestamp()  # 00:30 in Rome
    assert get_quiet_end(webhook, "high", night) == night + 6.5 * 3600
    assert get_quiet_end(webhook, "critical", night) == 0
    assert get_quiet_end(webhook, "high", night + 8 * 3600) == 0
