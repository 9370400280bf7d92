"""Threads for blocking work of async agents, separate from those of the agent's event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

__all__ = ["get_pool", "run_in_thread"]

T = TypeVar("T")
_pools: dict[int, ThreadPoolExecutor] = {}  # by process: a forked child has no thread of its parent


def run_in_thread(function: Callable[..., T], *args: Any, **more: Any) -> asyncio.Future[T]:
    """Run a function in a thread of this module, without queueing."""
    return asyncio.get_running_loop().run_in_executor(get_pool(), partial(function, *args, **more))


def get_pool() -> ThreadPoolExecutor:
    """Return the thread pool of this process."""
    existing = _pools.get(os.getpid())
    return existing or _pools.setdefault(os.getpid(), ThreadPoolExecutor(64, "toolcards"))
