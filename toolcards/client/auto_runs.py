"""Runs that open with their first call, for agents that a platform imports and nobody wraps in a `with` block.

One run for each conversation. It ends after a while without any call, by `close`, or with the process.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import uuid
from dataclasses import dataclass

from . import background_loop
from .call_registry import find_registry
from .gate_client import Toolcards
from .stream import Run

__all__ = ["IDLE", "AutoRuns"]

IDLE = 60.0  # seconds without a call after which a run has ended
LONGEST_NAME = 180


@dataclass
class _Open:
    """A run that is open, and since when nothing was heard of it."""

    run: Run
    used: float


class AutoRuns:
    """Opens a run at the first use of a conversation's name. Safe for threads."""

    def __init__(self, cards: Toolcards | None = None, *, agent: str, idle: float = IDLE) -> None:
        self._cards, self._agent, self._idle = cards, agent, idle
        self._lock = threading.Lock()
        self._runs: dict[str, _Open] = {}
        self._process = os.getpid()
        atexit.register(self.close)

    def run(self, conversation: str) -> Run:
        """Return the conversation's run, opening it if need be."""
        run, opens = self._found(conversation)
        if opens:
            background_loop.run_in_loop(self._opened(conversation, run), background_loop.get_background_loop())
        return run

    async def arun(self, conversation: str) -> Run:
        """The same, awaiting."""
        run, opens = self._found(conversation)
        if opens:
            await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(
                    self._opened(conversation, run), await asyncio.to_thread(background_loop.get_background_loop)
                )
            )
        return run

    def close(self) -> None:
        """End every run; the next call opens another one."""
        if os.getpid() != self._process:
            return
        with self._lock:
            runs, self._runs = self._runs, {}
        for each in runs.values():
            background_loop.run_in_loop(each.run._close(None), background_loop.get_background_loop())

    def _found(self, conversation: str) -> tuple[Run, bool]:
        """Return the conversation's run, and whether it is to be opened."""
        with self._lock:
            if os.getpid() != self._process:  # a forked child: its parent has those
                self._runs, self._process = {}, os.getpid()
            known = self._runs.get(conversation)
            if known is not None:
                known.used = time.monotonic()
                return known.run, False
            self._cards = self._cards or Toolcards()
            run = self._cards.run(self._name(conversation), agent=self._agent)
            self._runs[conversation] = _Open(run, time.monotonic())
            return run, True

    def _name(self, conversation: str) -> str:
        """Return a name of its own for each time a run opens: frames are numbered within one."""
        shown = f"{self._agent}-{conversation}" if conversation else self._agent
        printable = "".join(sign if sign.isprintable() else "_" for sign in shown[:LONGEST_NAME])
        return f"{printable}-{uuid.uuid4().hex[:8]}"

    async def _opened(self, conversation: str, run: Run) -> None:
        await run._open()
        asyncio.get_running_loop().call_later(self._idle, self._look, conversation, run)

    def _look(self, conversation: str, run: Run) -> None:
        """End the run if nothing was heard of it for long enough, and nothing of it is open; else look again."""
        with self._lock:
            known = self._runs.get(conversation)
            if known is None or known.run is not run:
                return
            registry = find_registry(run)
            left = known.used + self._idle - time.monotonic()
            idle = left <= 0 and registry is not None and not registry.busy()
            if idle:
                del self._runs[conversation]
        loop = asyncio.get_running_loop()
        if idle:
            loop.create_task(run._close(None))  # noqa: RUF006 - the loop lives as long as the process
        else:
            loop.call_later(max(left, self._idle / 4), self._look, conversation, run)
