"""Requests of this event loop that wait for answers: a test votes once they do."""

from __future__ import annotations

import asyncio

from tests.support.server import PATIENCE
from toolcards import feed


def count_waits(approval: str) -> int:
    """Return how many requests wait for the answer of this approval."""
    watches = feed._answer_watches.get(asyncio.get_running_loop(), {})
    return sum(len(watch._waiters.get(approval, ())) for watch in watches.values())


async def wait_for_waits(*approvals: str, requests: int = 1) -> None:
    """Wait until so many requests wait for the answer of each approval."""
    async with asyncio.timeout(PATIENCE):
        while min(map(count_waits, approvals)) < requests:
            await asyncio.sleep(0.01)
