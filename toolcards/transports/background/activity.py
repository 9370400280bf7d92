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


def get_last_use() -> float:
    """Return when someone last used this process, on the monotonic clock."""
    return _last_use


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


async def sleep(seconds: float, unused_seconds: float, wake: asyncio.Event | None = None) -> None:
    """Sleep, longer while this process is unused: then until someone comes.

    `wake` ends the sleep in any case.
    """
    wake = wake or asyncio.Event()
    if is_unused():
        seconds = unused_seconds
        _sleepers.add(wake)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wake.wait()
    finally:
        _sleepers.discard(wake)
