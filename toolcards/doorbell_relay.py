"""The bell between processes: a thread that sends rings over the channel layer and receives those of others.

The thread does nothing else, so ringing never waits for Redis. Each connection has its own event loop, so the tasks of
a broken connection end with that loop. A process also receives its own messages: this echo shows that the bell works in
both directions. If nothing rings, an empty message every few seconds takes its place, and a rarer one after a while.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from channels.layers import InMemoryChannelLayer, get_channel_layer

from toolcards import outages

log = logging.getLogger(__name__)
GROUP = "toolcards.doorbell"
CONNECT = 5.0  # seconds that connecting may take: a dozen answers of a slow Redis
ECHO = 2.0  # seconds within which a message must be back
IDLE, UNUSED_IDLE = 2.0, 15.0  # seconds between two messages when nothing rings, at first and after a while
UNUSED_AFTER = 30.0  # seconds since the last ring of any process
GAP = 0.02  # minimum seconds between two messages: rings in between go into the next one
PAUSE = 1.0  # seconds between two connections
MOST = 5_000  # runs that can wait, and runs in one message; more are lost and delayed by a heartbeat


class Relay:
    """Sends rings to the other processes, and passes theirs to `hear`."""

    def __init__(self, hear: Callable[[set[int]], None]) -> None:
        self._hear = hear
        self._process = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._pending: set[int] = set()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._last_ring = time.monotonic()
        self._wake: Callable[[], object] = lambda: None

    # ------------------------------------------------------------ from any thread

    def start(self) -> bool:
        """Connect unless already done; return whether other processes are possible."""
        if self._thread is not None:
            return True
        try:
            layer = get_channel_layer()
            if layer is None or isinstance(layer, InMemoryChannelLayer):
                return False
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._keep_connected, args=(layer,), name="bell", daemon=True)
                    thread.start()
                    self._thread = thread
                    atexit.register(self.close)
        except Exception as error:  # channels_redis is not installed, or no thread can be started
            outages.report_failure(outages.BELL, error)
            return False
        return True

    def send(self, runs: set[int]) -> None:
        """Ring for these runs in other processes, without waiting or raising."""
        if not self.start():
            return
        with self._lock:
            self._last_ring = time.monotonic()
            if len(self._pending) < MOST:
                self._pending |= runs
        self._wake()

    def close(self, seconds: float = 1.0) -> None:
        """Send pending rings for at most `seconds`, then end."""
        self._closing.set()
        self._wake()
        if self._thread is not None:
            self._thread.join(seconds)
        atexit.unregister(self.close)

    # ------------------------------------------------------------ in its thread

    def _keep_connected(self, layer: Any) -> None:
        while not self._closing.is_set():
            try:
                asyncio.run(self._connect(layer))
            except Exception as error:
                if self._closing.is_set():  # Python is ending, and what a connection needs may have ended before
                    return
                silent = isinstance(error, TimeoutError)
                outages.report_failure(outages.BELL, "Redis does not answer in time" if silent else error)
            self._closing.wait(PAUSE)

    async def _connect(self, layer: Any) -> None:
        """Pass rings on until the connection breaks, which raises, or the relay is closed."""
        loop, news, echo = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has closed: the next one begins by sending
                loop.call_soon_threadsafe(news.set)

        async with asyncio.timeout(CONNECT):
            channel = await layer.new_channel()
            await layer.group_add(GROUP, channel)
            await self._send(layer, [])  # over a second connection, which it opens
        listening = asyncio.create_task(self._listen(layer, channel, echo))
        self._wake = wake
        try:
            await self._keep_sending(layer, news, echo)
        finally:
            listening.cancel()
            # Before the task notices: it would try to unsubscribe, from a server that may not answer.
            with contextlib.suppress(Exception):
                async with asyncio.timeout(ECHO):
                    await layer.flush()

    async def _keep_sending(self, layer: Any, news: asyncio.Event, echo: asyncio.Event) -> None:
        while True:
            news.clear()
            echo.clear()
            async with asyncio.timeout(ECHO):
                await self._send(layer, self._take_pending())
            await _wait_for_echo(echo)
            outages.report_success(outages.BELL)
            if self._pending:
                news.set()
            if self._closing.is_set() and not self._pending:
                return
            await asyncio.sleep(GAP)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._compute_idle_seconds()):
                    await news.wait()

    def _compute_idle_seconds(self) -> float:
        is_unused = time.monotonic() - self._last_ring > UNUSED_AFTER
        return UNUSED_IDLE if is_unused else IDLE

    async def _send(self, layer: Any, runs: list[int]) -> None:
        await layer.group_send(GROUP, {"type": "ring", "process": self._process, "runs": runs})

    def _take_pending(self) -> list[int]:
        with self._lock:
            runs = list(islice(self._pending, MOST))
            self._pending.difference_update(runs)
        return runs

    async def _listen(self, layer: Any, channel: str, echo: asyncio.Event) -> None:
        while True:
            try:
                message = await layer.receive(channel)
            except Exception:  # no process of ours sends what cannot be unpacked
                log.debug("bell: a message could not be read and was ignored")
                continue
            if isinstance(message, dict) and message.get("process") == self._process:
                echo.set()
            elif runs := _parse_runs(message):
                self._last_ring = time.monotonic()
                self._hear(runs)


def _parse_runs(message: Any) -> set[int]:
    """Return the runs that the message rings; none if it is malformed: other programs may write to the same Redis."""
    runs = message.get("runs") if isinstance(message, dict) else None
    if not isinstance(runs, list) or len(runs) > MOST:
        return set()
    return {run for run in runs if type(run) is int and abs(run) < 1 << 63}


async def _wait_for_echo(echo: asyncio.Event) -> None:
    """Wait for the echo in short turns.

    A process that was paused finds at most one of them over.
    """
    for _ in range(8):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ECHO / 8):
                await echo.wait()
                return
    raise TimeoutError
