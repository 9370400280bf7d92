"""A thread with an event loop, for runs that are used from code without one. Shared by all of them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["find_running_loop", "get_background_loop", "run_in_loop"]

T = TypeVar("T")
_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a forked child has no thread of its parent


def get_background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process's own thread, which is started at the first need."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="toolcards", daemon=True).start()
        return loop


def find_running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def run_in_loop(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Wait in this thread until the loop of another one has done the work."""
    if find_running_loop() is loop:
        work.close()
        raise RuntimeError("this would wait for itself: use the async form here")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _reset_after_fork() -> None:
    """Take a new lock: the parent may have held the old one when it forked."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
