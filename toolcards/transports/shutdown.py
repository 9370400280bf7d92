"""The shutdown of this server process: holders of open requests and connections are notified, and finish.

The server in front of the application calls `begin` once, before it cancels anything. Held polls then answer with the
state as it is, event streams end, bodies end at a frame boundary, and sockets ask their peers to reconnect.
Worker processes import this before Django is set up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

log = logging.getLogger(__name__)
T = TypeVar("T")
Callback = Callable[[], None]

RECONNECT = 1012  # WebSocket close code: service restart (IANA registry of RFC 6455)
MESSAGE = "Toolcards is restarting. Try again in a moment."


class _Shutdown:
    """The state of one event loop."""

    def __init__(self) -> None:
        self.has_begun = False
        self.callbacks: list[Callback] = []


_shutdowns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shutdown] = WeakKeyDictionary()


def _get_shutdown() -> _Shutdown:
    loop = asyncio.get_running_loop()
    if loop not in _shutdowns:
        _shutdowns[loop] = _Shutdown()
    return _shutdowns[loop]


def has_begun() -> bool:
    """Return whether this event loop is being stopped."""
    return _get_shutdown().has_begun


def begin() -> None:
    """Notify everything on this event loop; later calls change nothing."""
    state = _get_shutdown()
    if state.has_begun:
        return
    state.has_begun = True
    for callback in list(state.callbacks):
        try:
            callback()
        except Exception:
            log.exception("shutdown: a connection could not be notified")


@contextlib.contextmanager
def subscribe(callback: Callback) -> Iterator[None]:
    """Call back once the shutdown begins, at once if it has begun."""
    state = _get_shutdown()
    state.callbacks.append(callback)
    try:
        if state.has_begun:
            callback()
        yield
    finally:
        state.callbacks.remove(callback)


class limit:
    """Raise TimeoutError in the block if it still runs that many seconds after the shutdown began.

    A class, because each request with a body enters one, and generators take twice as long.
    """

    def __init__(self, patience: float = 0.0) -> None:
        self._patience = patience

    async def __aenter__(self) -> None:
        self._timeout = asyncio.timeout(None)
        await self._timeout.__aenter__()
        self._state = _get_shutdown()
        self._state.callbacks.append(self._start_timer)
        if self._state.has_begun:
            self._start_timer()

    async def __aexit__(self, *error: Any) -> None:
        self._state.callbacks.remove(self._start_timer)
        await self._timeout.__aexit__(*error)

    def _start_timer(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time() + self._patience)


async def wait_unless_stopping(work: Awaitable[T]) -> T | None:
    """Return what the work returns, None if the shutdown begins before."""
    with contextlib.suppress(TimeoutError):
        async with limit():
            return await work
    return None


async def iterate_until_stopping(items: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield the items that come before the shutdown begins."""
    while True:
        try:
            async with limit():  # not around the `yield`: the block would belong to the reader's task
                item = await anext(items)
        except (TimeoutError, StopAsyncIteration):
            return
        yield item
