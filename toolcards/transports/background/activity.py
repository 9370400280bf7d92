"""Whether anyone uses this process: an open request or connection, or one that ended a moment ago.

Periodic jobs look rarely while it is unused, so that an idle server costs almost nothing. They look at once when
someone comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

UNUSED_AFTER = 30.0  # seconds after the last request or connection ended

_open_count = 0
_last_use = time.monotonic()
_sleepers: set[asyncio.Event] = set()


def is_unused() -> bool:
    """Return whether no one has used this process for a while."""
    return not _open_count and time.monotonic() - _last_use > UNUSED_AFTER


def record_use() -> None:
    """Count this moment as a use, and wake sleepers.

    Call it on the event loop.
    """
    global _last_use
    _last_use = time.monotonic()
    while _sleepers:
        _sleepers.pop().set()


@contextlib.contextmanager
def use() -> Iterator[None]:
    """Count the block, such as a request, as a use."""
    global _open_count
    _open_count += 1
    record_use()
    try:
        yield
    finally:
        _open_count -= 1
        record_use()


async def sleep(seconds: float, unused_seconds: float) -> None:
    """Sleep, longer while this process is unused: then until someone comes."""
    if not is_unused():
        await asyncio.sleep(seconds)
        return
    arrival = asyncio.Event()
    _sleepers.add(arrival)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(unused_seconds):
                await arrival.wait()
    finally:
        _sleepers.discard(arrival)
