"""The connection of a run: reconnects its WebSocket until the run ends or the server refuses it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

from ..common.json_text import parse_strict_object
from ..decisions.answers import describe_refusal
from . import websocket
from .outbox import Outbox
from .pending import PendingQuestions

__all__ = ["ASKED_PATIENCE", "Connection"]

FAULT = 4000
# Close codes and HTTP statuses that do not change on a retry: bad request, key, scope, size.
TOO_LARGE = 4413
FINAL = {FAULT, 4400, 4401, 4403, 4404, 400, 401, 403, 404}
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds between two attempts
HURRIED_PAUSE = 1.0  # the longest while a call waits for a decision
LASTED = 5.0  # seconds after which a connection counts as good
PATIENCE = 30.0  # seconds of silence after which a connection counts as dead
ASKED_PATIENCE = 120.0  # seconds that a waiting approval survives without a connection


class Connection:
    """Sends the outbox and receives messages, all in the loop of the run.

    `on_message` gets every message except acks.
    """

    def __init__(
        self,
        url: str,
        key: str,
        outbox: Outbox,
        pending: PendingQuestions,
        on_message: Callable[[dict[str, Any]], None],
    ) -> None:
        self._url, self._key, self._outbox, self._pending, self._on_message = url, key, outbox, pending, on_message
        self.news, self.hurry, self.empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.count = 0  # connections so far
        self.down_since: float | None = None  # loop time of the first failed attempt
        self.trouble = ""
        self.dead: websocket.ConnectionClosed | None = None  # why the server rejected this run permanently

    async def keep_connected(self) -> None:
        """Connect repeatedly until the run ends or the server refuses it."""
        pause, loop = FIRST_PAUSE, asyncio.get_running_loop()
        while self.dead is None:
            began = loop.time()
            why = await self._connect_once()
            if why.code == TOO_LARGE and (frame := self._outbox.drop_largest()) is not None:
                self._pending.deny(str(frame.get("call_id")), describe_refusal(why.reason), "invalid_args")
                continue
            if why.code in FINAL or why.code == TOO_LARGE:
                return self._give_up(why)
            self.down_since, self.trouble = self.down_since or loop.time(), why.reason or str(why)
            if loop.time() - self.down_since > ASKED_PATIENCE:
                self._pending.deny_all(f"Toolcards cannot be reached ({self.trouble}), so the call did not run.")
            pause = FIRST_PAUSE if loop.time() - began > LASTED else min(pause * 2, LONGEST_PAUSE)
            await self._pause(pause * random.uniform(0.7, 1.3))  # noqa: S311 - to spread the callers
        return None

    async def _pause(self, seconds: float) -> None:
        """Pause; only briefly while a call waits for a decision."""
        if self._pending:
            await asyncio.sleep(min(seconds, HURRIED_PAUSE))
            return
        self.hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 can swallow a cancellation
                await self.hurry.wait()

    async def _connect_once(self) -> websocket.ConnectionClosed:
        """Connect once and serve the connection; return why it ended."""
        try:
            socket = await websocket.connect(self._url, headers={"Authorization": f"Bearer {self._key}"})
            return await self._serve(socket)
        except websocket.ConnectionClosed as closed:
            return closed
        except (OSError, TimeoutError) as error:
            return websocket.ConnectionClosed(1006, str(error))
        except Exception as error:  # a bug of ours: no call may wait forever because of it
            return websocket.ConnectionClosed(FAULT, f"{type(error).__name__}: {error}")

    async def _serve(self, socket: websocket.Socket) -> websocket.ConnectionClosed:
        """Send everything unacknowledged, then new frames; return why the connection ended."""
        self._outbox.rewind()
        self.down_since = None
        if self.count:  # decisions may have been lost with the old connection: ask again
            for frame in self._pending.frames():
                self._outbox.add(frame)
        self.count += 1
        self.news.set()
        tasks = [asyncio.create_task(work(socket)) for work in (self._write, self._read, self._watch)]
        try:
            finished_tasks, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            socket.abort()
        error = next((e for task in finished_tasks if (e := task.exception())), None)
        if isinstance(error, websocket.ConnectionClosed):
            return error
        if isinstance(error, OSError):
            return websocket.ConnectionClosed(1006, str(error))
        raise error or RuntimeError("a connection ended without a reason")

    async def _write(self, socket: websocket.Socket) -> None:
        while True:
            await self.news.wait()
            self.news.clear()
            while message := self._outbox.take_message():
                await socket.send(message)

    async def _read(self, socket: websocket.Socket) -> None:
        while True:
            with contextlib.suppress(ValueError):  # not a decision, whatever it was
                self._receive(parse_strict_object((await socket.recv()).encode()))

    async def _watch(self, socket: websocket.Socket) -> None:
        """Detect a server that disappeared without closing."""
        while True:
            await asyncio.sleep(PATIENCE / 2)
            if asyncio.get_running_loop().time() - socket.last_received_at > PATIENCE:
                raise websocket.ConnectionClosed(1006, "the server stopped responding")
            await socket.ping()

    def _receive(self, message: dict[str, Any]) -> None:
        if message.get("type") != "ack":
            return self._on_message(message)
        self._outbox.acknowledge(message.get("frames"))
        if not len(self._outbox):
            self.empty.set()
        return None

    def _give_up(self, why: websocket.ConnectionClosed) -> None:
        self.dead = why
        self.empty.set()
        self._pending.deny_all(f"The gate refused this run: {why.reason or why.code}")
