"""The connection of a run: one WebSocket after another, until the run is over or the server says never."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

from . import websocket
from .common.json_text import strict_object
from .outbox import Outbox
from .pending import PendingQuestions

__all__ = ["ASKED_PATIENCE", "Connection"]

FAULT = 4000
# Close codes after which trying again would be told the same: bad request, key, scope, too large; and a plain HTTP no.
FINAL = {FAULT, 4400, 4401, 4403, 4404, 4413, 400, 401, 403, 404}
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds between two tries
HURRIED_PAUSE = 1.0  # the longest while somebody waits for a decision
LASTED = 5.0  # seconds after which a connection was a good one
PATIENCE = 30.0  # seconds without any sign of life after which a connection counts as dead
ASKED_PATIENCE = 120.0  # seconds without a connection that a question put to a person outlives


class Connection:
    """Sends what is in the outbox, hears what the server says; all in the loop of the run.

    `hear` is given every message but acks.
    """

    def __init__(
        self, url: str, key: str, outbox: Outbox, pending: PendingQuestions, hear: Callable[[dict[str, Any]], None]
    ) -> None:
        self._url, self._key, self._outbox, self._pending, self._hear = url, key, outbox, pending, hear
        self.news, self.hurry, self.empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.count = 0  # connections so far
        self.away: float | None = None  # since when there is none, after a try that failed
        self.trouble = ""
        self.dead: websocket.Closed | None = None  # why the server will never hear this run

    async def talk(self) -> None:
        """Connect, again and again, until the run is over or the server says never."""
        pause, loop = FIRST_PAUSE, asyncio.get_running_loop()
        while self.dead is None:
            began = loop.time()
            why = await self._tried()
            if why.code in FINAL:
                return self._give_up(why)
            self.away, self.trouble = self.away or loop.time(), why.reason or str(why)
            if loop.time() - self.away > ASKED_PATIENCE:
                self._pending.deny_all(f"Toolcards cannot be reached ({self.trouble}), so the call may not run.")
            pause = FIRST_PAUSE if loop.time() - began > LASTED else min(pause * 2, LONGEST_PAUSE)
            await self._rest(pause * random.uniform(0.7, 1.3))  # noqa: S311 - to spread the callers
        return None

    async def _rest(self, seconds: float) -> None:
        """Pause; not long where a call waits, or one begins to."""
        if self._pending:
            await asyncio.sleep(min(seconds, HURRIED_PAUSE))
            return
        self.hurry.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.hurry.wait(), seconds)

    async def _tried(self) -> websocket.Closed:
        """Connect once and stay as long as it lasts; return why it ended."""
        try:
            socket = await websocket.connect(self._url, headers={"Authorization": f"Bearer {self._key}"})
            return await self._connected(socket)
        except websocket.Closed as closed:
            return closed
        except (OSError, TimeoutError) as error:
            return websocket.Closed(1006, str(error))
        except Exception as error:  # ours to mend; until then nobody may wait for ever
            return websocket.Closed(FAULT, f"{type(error).__name__}: {error}")

    async def _connected(self, socket: websocket.Socket) -> websocket.Closed:
        """Say everything that is not acknowledged, then what comes; return why the connection ended."""
        self._outbox.rewind()
        self.away = None
        if self.count:  # decisions may have been lost with the old connection: ask once more
            for frame in self._pending.frames():
                self._outbox.add(frame)
        self.count += 1
        self.news.set()
        tasks = [asyncio.create_task(work(socket)) for work in (self._write, self._read, self._watch)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            socket.abort()
        error = next((e for task in done if (e := task.exception())), None)
        if isinstance(error, websocket.Closed):
            return error
        if isinstance(error, OSError):
            return websocket.Closed(1006, str(error))
        raise error or RuntimeError("a connection ended without a reason")

    async def _write(self, socket: websocket.Socket) -> None:
        while True:
            await self.news.wait()
            self.news.clear()
            while message := self._outbox.message():
                await socket.send(message)

    async def _read(self, socket: websocket.Socket) -> None:
        while True:
            with contextlib.suppress(ValueError):  # whatever it was, it was no decision
                self._heard(strict_object((await socket.recv()).encode()))

    async def _watch(self, socket: websocket.Socket) -> None:
        """Notice a server that is gone without saying so."""
        while True:
            await asyncio.sleep(PATIENCE / 2)
            if asyncio.get_running_loop().time() - socket.heard > PATIENCE:
                raise websocket.Closed(1006, "no sign of life")
            await socket.ping()

    def _heard(self, said: dict[str, Any]) -> None:
        if said.get("type") != "ack":
            return self._hear(said)
        self._outbox.acknowledged(said.get("frames"))
        if not len(self._outbox):
            self.empty.set()
        return None

    def _give_up(self, why: websocket.Closed) -> None:
        self.dead = why
        self.empty.set()
        self._pending.deny_all(f"The gate refused this run: {why.reason or why.code}")
