"""Rounds of deliveries and reviews: each begins when the doorbell rings, or after a pause without a ring."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from channels.db import database_sync_to_async

from toolcards import outages
from toolcards.database import report_outage
from toolcards.doorbell import EVERY_RUN, listen

log = logging.getLogger(__name__)
IDLE, BREATH = 1.0, 0.2  # seconds between two rounds without and with a ring


class PooledTurns(Protocol):
    """Works that take turns in the threads of a pool."""

    def begin(self) -> None:
        """Begin as many as there are free threads, and return."""

    def close(self) -> None:
        """Begin no more."""


async def run_rounds(works: Iterable[PooledTurns], get_pause: Callable[[], float] = lambda: IDLE) -> None:
    """Begin the turns of all works after each commit, forever.

    Run it as one task per event loop. `get_pause`: the seconds between two rounds without a ring.
    """
    works = list(works)
    try:
        async with listen(EVERY_RUN) as bell:
            while True:
                await bell.wait(get_pause())
                for work in works:
                    try:
                        await database_sync_to_async(work.begin, thread_sensitive=False)()
                    except Exception as error:  # the database may be temporarily unavailable
                        if not report_outage(error, outages.SENDING):
                            log.exception("rounds: %s failed", type(work).__name__)
                await asyncio.sleep(BREATH)
    finally:
        for work in works:
            work.close()
