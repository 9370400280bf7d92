"""Long work on the event loop, cut into slices, so that it does not hold up agents and pages.

Frames are checked on the event loop, which takes 10 to 100 µs each, and one body can have 100,000. After each slice
the work pauses for as long as the slice took. Works pause one after the other, so together they take half of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
SLICE = 0.005  # seconds


class Slices:
    """The slices of one long work; the first begins now."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def is_over(self) -> bool:
        """Return whether the work should pause now."""
        return time.perf_counter() - self._start > SLICE

    async def pause(self) -> None:
        """Let others use the event loop; then the next slice begins."""
        seconds_spent = time.perf_counter() - self._start
        loop = asyncio.get_running_loop()
        async with _locks.setdefault(loop, asyncio.Lock()):
            await asyncio.sleep(seconds_spent)
        self._start = time.perf_counter()

    async def collect(self, items: Iterable[T]) -> list[T]:
        """Return the items as a list; to compute them is the work."""
        result: list[T] = []
        for item in items:
            result.append(item)
            if self.is_over:
                await self.pause()
        return result


_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
