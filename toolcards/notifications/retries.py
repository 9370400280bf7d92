"""When a delivery that failed is sent again, and when it is given up."""

from __future__ import annotations

import random

from toolcards.models.notifications import Delivery

# The example schedule of Standard Webhooks, in seconds; after the last one the delivery has failed.
BACKOFF = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
BROWSER_BACKOFF = (5, 15, 60, 120, 300, 600)  # seconds; a question rarely waits for longer


def retry(
    delivery: Delivery, why: str, status: int, after: float | None, now: float, backoff: tuple[int, ...] = BACKOFF
) -> None:
    """Send the delivery again later, or give up after the last pause."""
    if delivery.attempts > len(backoff):
        return finish(delivery, "failed", now, error=why, status=status)
    pause = backoff[delivery.attempts - 1] * random.uniform(0.9, 1.2)  # noqa: S311 - to spread the retries
    fields = {"next_at": now + max(pause, after or 0), "error": why[:300], "status": status or None}
    Delivery.objects.filter(pk=delivery.pk).update(**fields)
    return None


def finish(delivery: Delivery, state: str, now: float, *, error: str = "", status: int = 0) -> None:
    """Record the last state of the delivery."""
    Delivery.objects.filter(pk=delivery.pk).update(state=state, done_at=now, error=error[:300], status=status or None)
