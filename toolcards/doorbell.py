"""A bell per run: "this run has news". It carries no news itself, so a lost ring costs only a heartbeat.

Rings reach listeners of this process directly and other processes through one channel each of the
channel layer (Redis); with the in-memory layer there are no other processes to tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Iterable

from asgiref.sync import async_to_sync
from channels.layers import InMemoryChannelLayer, get_channel_layer

log = logging.getLogger(__name__)
GROUP = "toolcards.doorbell"
PROCESS = secrets.token_hex(8)
EVERY_RUN = 0  # what a listener of all runs listens to; rung by itself, something holds for all of them (a switch)


def answers_of(run: int) -> int:
    """Return the bell that rings when an approval of the run has changed, and not for every delta."""
    return -run


_lock = threading.Lock()
_listeners: set[Listener] = set()
_relays: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}


class Listener:
    """One follower: wakes when one of its runs has rung, and says which ones did."""

    def __init__(self, runs: Iterable[int]) -> None:
        self.runs = frozenset(runs)
        self._loop = asyncio.get_running_loop()
        self._rung: set[int] = set()
        self._woken = asyncio.Event()

    def hears(self, runs: Iterable[int]) -> set[int]:
        """Return those of these runs that it listens to."""
        if EVERY_RUN in self.runs:
            return {run for run in runs if run >= 0}
        return self.runs.intersection(runs)

    def wake(self, runs: set[int]) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # its loop has closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._hear, runs)

    def _hear(self, runs: set[int]) -> None:
        self._rung |= runs
        self._woken.set()

    async def wait(self, timeout: float) -> set[int]:  # noqa: ASYNC109 - silence is an answer, no error
        """Return the runs that rang since the last wait; empty after `timeout` seconds of silence."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):  # `wait_for` of Python 3.11 can swallow a cancellation
                await self._woken.wait()
        self._woken.clear()
        rung, self._rung = self._rung, set()
        return rung


def ring(runs: Iterable[int]) -> None:
    """Say that these runs have news; from any thread, never raises."""
    rung = set(runs)
    if not rung:
        return
    _ring_here(rung)
    try:
        _ring_elsewhere(rung)
    except Exception:  # a broken Redis never fails what was committed
        log.warning("doorbell: the channel layer is not there; other processes will notice at their heartbeat")


def _ring_here(runs: set[int]) -> None:
    with _lock:
        listeners = list(_listeners)
    for listener in listeners:
        heard = listener.hears(runs)
        if heard:
            listener.wake(heard)


def _ring_elsewhere(runs: set[int]) -> None:
    layer = get_channel_layer()
    if layer is None or isinstance(layer, InMemoryChannelLayer):
        return
    message = {"type": "ring", "process": PROCESS, "runs": sorted(runs)}
    for loop in list(_relays):
        if loop.is_running():
            loop.call_soon_threadsafe(lambda loop=loop: loop.create_task(_send(layer, message)))
            return
    async_to_sync(layer.group_send)(GROUP, message)


async def _send(layer: object, message: dict[str, object]) -> None:
    try:
        await layer.group_send(GROUP, message)  # type: ignore[attr-defined]
    except Exception:
        log.warning("doorbell: ring not sent")


@contextlib.asynccontextmanager
async def listening(*runs: int) -> AsyncIterator[Listener]:
    """Listen to these runs (`EVERY_RUN` for all) for as long as the block lasts."""
    listener = Listener(runs)
    with _lock:
        _listeners.add(listener)
    _relay_on(asyncio.get_running_loop())
    try:
        yield listener
    finally:
        with _lock:
            _listeners.discard(listener)


def _relay_on(loop: asyncio.AbstractEventLoop) -> None:
    """One channel per process: start the task that passes other processes' rings on."""
    layer = get_channel_layer()
    if layer is None or isinstance(layer, InMemoryChannelLayer) or loop in _relays:
        return
    _relays[loop] = loop.create_task(_relay(layer))


async def _relay(layer: object) -> None:
    channel = f"{GROUP}.{PROCESS}"
    while True:
        try:
            await layer.group_add(GROUP, channel)  # type: ignore[attr-defined]
            while True:
                message = await layer.receive(channel)  # type: ignore[attr-defined]
                if message.get("process") != PROCESS:
                    _ring_here(set(message.get("runs", ())))
        except asyncio.CancelledError:
            raise
        except Exception:
            await asyncio.sleep(1)
