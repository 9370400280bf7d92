"""Long reads take turns in threads of their own.

On the event loop, or in many threads at once, readers of long runs would hold up agents and pages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from channels.db import DatabaseSyncToAsync

T = TypeVar("T")
PAUSE = 1.0  # seconds of rest for each second of CPU


class Turns:
    """One thread. It does one work after the other, and rests after each."""

    def __init__(self, name: str) -> None:
        self._free_at = 0.0  # monotonic time at which the next turn may begin
        thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._run_in_thread = DatabaseSyncToAsync(self._take_turn, thread_sensitive=False, executor=thread)

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which should take a few milliseconds."""
        result: T = await self._run_in_thread(work)
        return result

    def _take_turn(self, work: Callable[[], Any]) -> Any:
        time.sleep(max(0.0, self._free_at - time.monotonic()))
        start = time.thread_time()  # CPU time: a busy machine must not delay the next turn
        try:
            return work()
        finally:
            self._free_at = time.monotonic() + PAUSE * (time.thread_time() - start)


followers = Turns("followers")  # event streams
readers = Turns("readers")  # lists of whole calls
