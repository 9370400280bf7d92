"""Runs that open with their first call, for agents that a platform imports without a `with` block.

Each conversation has one run. It ends after IDLE seconds without a call, by `close`, or with the process.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass

from ..gate_client import Toolcards
from ..stream import Run
from ..transport import threads
from .call_registry import find_registry

__all__ = ["IDLE", "AutoRuns"]

IDLE = 60.0  # seconds without a call after which a run has ended
LONGEST_NAME = 180


@dataclass
class _OpenRun:
    """A run, its opening in the background loop, and the monotonic time of its last use."""

    run: Run
    opening: Future[None]
    last_used: float


class AutoRuns:
    """Opens a run at the first use of a conversation. Safe for threads."""

    def __init__(self, cards: Toolcards | None = None, *, agent: str, idle: float = IDLE) -> None:
        self._cards, self._agent, self._idle = cards, agent, idle
        self._lock = threading.Lock()
        self._runs: dict[str, _OpenRun] = {}
        self._process = os.getpid()
        atexit.register(self.close)

    def run(self, conversation: str) -> Run:
        """Return the conversation's run, opening it if necessary."""
        entry = self._get_or_open(conversation)
        if not entry.opening.done():  # perhaps by another thread
            threads.run_in_loop(_wait_for(entry.opening), threads.get_background_loop())
        return entry.run

    async def arun(self, conversation: str) -> Run:
        """Return the conversation's run, opening it if necessary (async)."""
        entry = await asyncio.to_thread(self._get_or_open, conversation)
        await _wait_for(entry.opening)
        return entry.run

    def close(self) -> None:
        """End every run, all at once; the next call opens another one."""
        if os.getpid() != self._process:
            return
        with self._lock:
            runs, self._runs = self._runs, {}
        if runs:
            threads.run_in_loop(_close([each.run for each in runs.values()]), threads.get_background_loop())

    def _get_or_open(self, conversation: str) -> _OpenRun:
        """Return the conversation's run, which may still be opening."""
        with self._lock:
            if os.getpid() != self._process:  # a forked child: these runs belong to the parent
                self._runs, self._process = {}, os.getpid()
            entry = self._runs.get(conversation)
            if entry is not None:
                entry.last_used = time.monotonic()
                return entry
            self._cards = self._cards or Toolcards()
            run = self._cards.run(self._name(conversation), agent=self._agent)
            opening = asyncio.run_coroutine_threadsafe(self._open_run(conversation, run), threads.get_background_loop())
            entry = self._runs[conversation] = _OpenRun(run, opening, time.monotonic())
            return entry

    def _name(self, conversation: str) -> str:
        """Return a new name each time a run opens, since frames are numbered within a run."""
        label = f"{self._agent}-{conversation}" if conversation else self._agent
        printable = "".join(sign if sign.isprintable() else "_" for sign in label[:LONGEST_NAME])
        return f"{printable}-{uuid.uuid4().hex[:8]}"

    async def _open_run(self, conversation: str, run: Run) -> None:
        await run._open()
        asyncio.get_running_loop().call_later(self._idle, self._end_if_idle, conversation, run)

    def _end_if_idle(self, conversation: str, run: Run) -> None:
        """End the run if it is idle and no call is open; otherwise check again later."""
        with self._lock:
            entry = self._runs.get(conversation)
            if entry is None or entry.run is not run:
                return
            registry = find_registry(run)
            remaining = entry.last_used + self._idle - time.monotonic()
            idle = remaining <= 0 and registry is not None and not registry.is_busy()
            if idle:
                del self._runs[conversation]
        loop = asyncio.get_running_loop()
        if idle:
            loop.create_task(run._close(None))  # noqa: RUF006 - the loop lives as long as the process
        else:
            loop.call_later(max(remaining, self._idle / 4), self._end_if_idle, conversation, run)


async def _wait_for(opening: Future[None]) -> None:
    await asyncio.shield(asyncio.wrap_future(opening))


async def _close(runs: list[Run]) -> None:
    await asyncio.gather(*(run._close(None) for run in runs), return_exceptions=True)
