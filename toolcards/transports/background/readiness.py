"""Readiness: whether reading, writing, sending and the bell have worked recently, and since when one has failed.

Normal work reports its outcomes to `outages`. Without a recent report, or while a part fails, a probe checks it: one
per part at a time, shared by all callers. A probe that hangs stays the only one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import connection

from toolcards import gate, outages
from toolcards.outages import BELL, READING, SENDING, UNKNOWN, WRITING, Cause, find_cause
from toolcards.transports.background import activity

log = logging.getLogger(__name__)
PROBE_SECONDS = 3.0  # seconds that a probe may take
WATCH_SECONDS, UNUSED_SECONDS = 1.0, 10.0  # seconds between two looks of `watch`, used and unused
FRESH = {READING: 1.0, WRITING: 10.0}  # seconds that a part counts as working after it last worked
STUCK = 60.0  # seconds after which work that waits to be written, or a queue that is not read, counts as stuck

Reason = dict[str, Any]


async def watch() -> None:
    """Detect outages and their ends without traffic, while the server runs.

    Probing whether it can write is a write. So while no one uses the process, only parts that fail are probed.
    """
    while True:
        await activity.sleep(WATCH_SECONDS, UNUSED_SECONDS)
        failing_parts = [part for part in FRESH if outages.get_outage(part) is not None]
        await probe_parts(failing_parts if activity.is_unused() else FRESH)


async def probe_parts(parts: Iterable[str] = FRESH) -> None:
    """Probe parts that fail or have not worked recently."""
    await asyncio.gather(*(_Probe.join(part).end() for part in parts if _is_in_doubt(part)))


async def list_reasons() -> dict[str, Reason]:
    """Return by part why the server is not ready.

    Empty while it is.
    """
    bell, _ = await asyncio.gather(_find_bell_fault(), probe_parts())
    reasons = {
        outage.part: _describe_outage(outage) for outage in outages.list_outages() if outage.part != outages.ANCHORING
    }
    for part, seconds in ((WRITING, gate.get_oldest_wait()), (SENDING, outages.get_idle_seconds(SENDING))):
        if part not in reasons and STUCK < seconds < float("inf"):
            reasons[part] = _build_reason("stuck", "no progress for a minute", seconds)
    if bell is not None and BELL not in reasons:
        reasons[BELL] = _build_reason(bell.code, bell.words, 0.0)
    return reasons


def _is_in_doubt(part: str) -> bool:
    return outages.get_outage(part) is not None or outages.get_idle_seconds(part) > FRESH[part]


def _describe_outage(outage: outages.Outage) -> Reason:
    return _build_reason(outage.cause.code, outage.cause.words, outage.seconds)


def _build_reason(code: str, words: str, seconds: float) -> Reason:
    """Build a reason without the driver's text, which can hold addresses: readiness is public."""
    start = datetime.fromtimestamp(time.time() - seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"reason": code, "message": words, "since": start, "seconds": round(seconds, 1)}


# ---------------------------------------------------------------- probes


class _Probe:
    """One probe of a part, shared by all callers on the event loop."""

    def __init__(self, part: str) -> None:
        self._part, self._started = part, time.monotonic()
        self._task = asyncio.ensure_future(_TRIES[part]())
        self._task.add_done_callback(self._report)

    @classmethod
    def join(cls, part: str) -> _Probe:
        """Return the probe that runs, or start one."""
        running = _running.setdefault(asyncio.get_running_loop(), {})
        if part not in running or running[part]._task.done():
            running[part] = cls(part)
        return running[part]

    async def end(self) -> None:
        """Wait for the rest of its time."""
        remaining = self._started + PROBE_SECONDS - time.monotonic()
        await asyncio.wait({self._task}, timeout=max(0.0, remaining))
        if not self._task.done():
            outages.report_failure(self._part, TimeoutError(f"no answer within {PROBE_SECONDS:.0f} seconds"))

    def _report(self, task: asyncio.Future[Any]) -> None:
        """Report the outcome, also after the time is over."""
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            outages.report_success(self._part)
        else:
            outages.report_failure(self._part, error)


_running: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Probe]] = WeakKeyDictionary()


def _query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM toolcards_run WHERE id = 0")


_TRIES: dict[str, Callable[[], Awaitable[Any]]] = {
    READING: database_sync_to_async(_query, thread_sensitive=False),
    WRITING: gate.arecord_pulse,
}


async def _find_bell_fault() -> Cause | None:
    """Return why the channel layer takes no message; listeners report to `outages` themselves."""
    layer = get_channel_layer()
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            if layer is not None:
                await layer.group_send("toolcards.ready", {"type": "ready"})
    except Exception as error:
        cause = find_cause(error)
        return Cause("failing", "the channel layer (Redis) does not answer") if cause is UNKNOWN else cause
    return None
