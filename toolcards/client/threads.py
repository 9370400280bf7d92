"""Threads for blocking work of async agents, apart from those of the agent's own event loop."""

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


def run_in_thread(do: Callable[..., T], *args: Any, **more: Any) -> asyncio.Future[T]:
    """Do it in a thread of this module; it begins at once."""
    return asyncio.get_running_loop().run_in_executor(get_pool(), partial(do, *args, **more))


def get_pool() -> ThreadPoolExecutor:
    """Return the threads of this process."""
    known = _pools.get(os.getpid())
    return known or _pools.setdefault(os.getpid(), ThreadPoolExecutor(64, "toolcards"))
