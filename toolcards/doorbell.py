"""A bell per run: "this run has news". It carries no data, so a lost ring only delays followers by a heartbeat.

Rings reach listeners of this process directly, and those of other processes through the relay.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable

from toolcards.doorbell_relay import Relay

EVERY_RUN = 0  # listen to this for all runs; ring it when all runs change (a switch)
EVERY_APPROVAL = -(2**62)  # listen to this for the approvals of all runs; no run has this number


def get_approvals_bell(run: int) -> int:
    """Return the bell of the run's approvals, which no delta rings."""
    return -run


_lock = threading.Lock()
_listeners: set[Listener] = set()
_relay = Relay(lambda runs: _ring_locally(runs))


class Listener:
    """A follower: wakes when one of its runs rings, and returns which ones did."""

    def __init__(self, runs: Iterable[int]) -> None:
        self.runs = frozenset(runs)
        self._loop = asyncio.get_running_loop()
        self._rung: set[int] = set()
        self._unheard: set[int] = set()
        self._is_waking = False
        self._lock = threading.Lock()  # of `_unheard`
        self._woken = asyncio.Event()

    def select(self, runs: Iterable[int]) -> set[int]:
        """Return those of the runs that this listener follows."""
        if EVERY_RUN in self.runs and EVERY_APPROVAL in self.runs:
            return set(runs)
        return {run for run in runs if run in self.runs or (EVERY_RUN if run >= 0 else EVERY_APPROVAL) in self.runs}

    def wake(self, runs: set[int]) -> None:
        """Wake the listener, from any thread.

        Several pending rings wake its event loop only once.
        """
        with self._lock:
            is_first = not self._is_waking
            self._is_waking = True
            self._unheard |= runs
        if is_first:
            with contextlib.suppress(RuntimeError):  # its loop has closed
                self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        with self._lock:
            runs, self._unheard, self._is_waking = self._unheard, set(), False
        self._rung |= runs
        self._woken.set()

    async def wait(self, timeout: float) -> set[int]:  # noqa: ASYNC109 - a timeout is a result, not an error
        """Return the runs that rang since the last wait, empty after `timeout`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):  # `wait_for` of Python 3.11 can swallow a cancellation
                await self._woken.wait()
        self._woken.clear()
        rung_runs, self._rung = self._rung, set()
        return rung_runs


def ring(runs: Iterable[int]) -> None:
    """Ring for these runs, from any thread; never waits and never raises."""
    rung_runs = set(runs)
    if rung_runs:
        _ring_locally(rung_runs)
        _relay.send(rung_runs)


def _ring_locally(runs: set[int]) -> None:
    with _lock:
        listeners = list(_listeners)
    for listener in listeners:
        followed_runs = listener.select(runs)
        if followed_runs:
            listener.wake(followed_runs)


@contextlib.asynccontextmanager
async def listen(*runs: int) -> AsyncIterator[Listener]:
    """Listen to these runs (`EVERY_RUN` for all) during the block."""
    listener = Listener(runs)
    with _lock:
        _listeners.add(listener)
    _relay.start()
    try:
        yield listener
    finally:
        with _lock:
            _listeners.discard(listener)
