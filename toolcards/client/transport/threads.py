"""Threads of the client: one with an event loop for code without a loop, and a pool for blocking work of async code."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

__all__ = ["find_running_loop", "get_background_loop", "get_pool", "run_in_loop", "run_in_thread"]

T = TypeVar("T")
_lock = threading.Lock()
# By process: a forked child has no thread of its parent.
_loops: dict[int, asyncio.AbstractEventLoop] = {}
_pools: dict[int, ThreadPoolExecutor] = {}


def get_background_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the background thread, started on demand."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="toolcards", daemon=True).start()
        return loop


def find_running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def run_in_loop(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run the coroutine in another thread's loop and wait for its result."""
    if find_running_loop() is loop:
        coroutine.close()
        raise RuntimeError("this would deadlock: use the async method here")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _reset_after_fork() -> None:
    """Replace the lock: the parent may have held it when it forked."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def run_in_thread(function: Callable[..., T], *args: Any, **more: Any) -> asyncio.Future[T]:
    """Run a function in a thread of this module, without queueing."""
    return asyncio.get_running_loop().run_in_executor(get_pool(), partial(function, *args, **more))


def get_pool() -> ThreadPoolExecutor:
    """Return the thread pool of this process."""
    existing = _pools.get(os.getpid())
    return existing or _pools.setdefault(os.getpid(), ThreadPoolExecutor(64, "toolcards"))
