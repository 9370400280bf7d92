"""Whether anyone uses this process: an open request or connection, or one that ended a moment ago.

Periodic jobs look rarely while it is unused, so that an idle server costs almost nothing. They look at once when
someone comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

from toolcards import gate
from toolcards.models.calls import forget_shown_cards
from toolcards.transports.background import activity

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


# Memory that is not used returns to the system: the C library keeps what was freed, as after a flood of calls.
_collected_use = -1.0  # the last use of this process before the last full collection


def release_memory() -> None:
    """Drop idle runs if all are too large, and return free memory.

    While no one uses the process, almost all caches; once after each use also what only a full collection finds: that
    stops all threads for a moment.
    """
    global _collected_use
    is_unused, use = activity.is_unused(), activity.get_last_use()
    gate.drop_idle_runs(is_unused=is_unused)
    if is_unused:
        forget_shown_cards()
        gate.forget_committed_cards()
    if is_unused and use != _collected_use:  # nothing new has become garbage since
        _collected_use = use
        gc.collect()
    return_free_memory()


def return_free_memory() -> None:
    """Return free memory to the system, if the library is glibc.

    Takes about 0.1 ms for each megabyte that returns, without the interpreter's lock.
    """
    trim = _find_trim()
    if trim is not None:
        trim(0)


@cache
def _find_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return None
