"""What runs by the clock in every server process: expiry, lost runs, leases, revoked keys, retention, verifying."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Protocol

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.conf import settings

from toolcards import gate, hooks, outages
from toolcards.audit import verification
from toolcards.database import report_outage
from toolcards.doorbell import EVERY_RUN, listen
from toolcards.notifications import source_alerts
from toolcards.notifications.dispatcher import DeliveryTurns
from toolcards.reviewers.worker import ReviewTurns
from toolcards.sources import capabilities
from toolcards.transports.background import activity, anchor_copies, connections, readiness
from toolcards.transports.background.heap import release_memory

# Rounds of deliveries and reviews: each begins when the doorbell rings, or after a pause without a ring.
IDLE, BREATH = 1.0, 0.2  # seconds between two rounds without and with a ring


class PooledTurns(Protocol):
    """Works that take turns in the threads of a pool."""

    def begin(self) -> None:
        """Begin as many as there are free threads, and return."""

    def close(self) -> None:
        """Begin no more."""


async def run_rounds(works: Iterable[PooledTurns], get_pause: Callable[[], float] = lambda: IDLE) -> None:
    """Begin the turns of all works after each commit, forever.

    Run it as one task per event loop. `get_pause`: the seconds between two rounds without a ring.
    """
    works = list(works)
    try:
        async with listen(EVERY_RUN) as bell:
            while True:
                await bell.wait(get_pause())
                for work in works:
                    try:
                        await database_sync_to_async(work.begin, thread_sensitive=False)()
                    except Exception as error:  # the database may be temporarily unavailable
                        if not report_outage(error, outages.SENDING):
                            log.exception("rounds: %s failed", type(work).__name__)
                await asyncio.sleep(BREATH)
    finally:
        for work in works:
            work.close()


log = logging.getLogger(__name__)
_tasks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = weakref.WeakKeyDictionary()
UNUSED_SECONDS = 60.0  # seconds between two rounds while no one uses the process and nothing runs out
INDEX_SECONDS = 5.0  # seconds between two rounds of the search index
INDEX_PAUSE = 1.0  # seconds after a round that added calls
INDEX_DELAY = 15.0  # seconds for which a busy process puts off a round
BUSY_RATE = 20.0  # frames received per second
DISPATCH_SECONDS = (1.0, 30.0)  # seconds between two looks for notifications without a ring: used and unused
RETENTION_SECONDS = 60.0  # seconds between two rounds of retention
MEMORY_SECONDS = 60.0  # seconds between two returns of free memory
_sweep = database_sync_to_async(gate.sweep, thread_sensitive=False)
_is_pending = database_sync_to_async(gate.is_anything_pending, thread_sensitive=False)
VERIFICATION_SECONDS = 3600.0  # seconds after which the whole audit trail is verified again
GLANCE_SECONDS = 60.0  # seconds between two looks at its end
_look = database_sync_to_async(source_alerts.write_source_alerts, thread_sensitive=False)
_keep = database_sync_to_async(capabilities.gather_expiring, thread_sensitive=False)
_index = database_sync_to_async(gate.update_search_index, thread_sensitive=False)
_retain = database_sync_to_async(gate.run_retention, thread_sensitive=False)
_release = sync_to_async(release_memory, thread_sensitive=False)


def start() -> None:
    """Start the clock on this event loop, unless it runs already."""
    loop = asyncio.get_running_loop()
    task = _tasks.get(loop)
    if task is None or task.done():
        activity.record_use()
        loop.run_in_executor(None, hooks.list_plugins)  # loaded before the writer would have to wait for it
        _tasks[loop] = loop.create_task(_run())


async def stop() -> None:
    """Stop the clock of this event loop."""
    task = _tasks.pop(asyncio.get_running_loop(), None)
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _run() -> None:
    works = (
        run_rounds([DeliveryTurns(), ReviewTurns()], lambda: DISPATCH_SECONDS[activity.is_unused()]),
        readiness.watch(),
        _run_retention(),
        _run_memory(),
        _run_search_index(),
        _run_verification(),
        _run_alerts(),
        _run_anchor_copies(),
    )
    tasks, is_pending = [asyncio.create_task(work) for work in works], True
    try:
        while True:
            seconds = min(1.0, max(0.05, settings.TOOLCARDS.grace / 4))
            await activity.sleep(seconds, seconds if is_pending else UNUSED_SECONDS)
            try:
                await connections.check_connections()
                await connections.renew_holds()
                await _sweep()
                is_pending = not activity.is_unused() or await _is_pending()
            except Exception as error:  # the database may be temporarily unavailable; the rounds continue
                if not report_outage(error):
                    log.exception("background: this round failed")
    finally:
        for task in tasks:
            task.cancel()


async def _run_alerts() -> None:
    while True:
        await asyncio.sleep(source_alerts.CHECK_SECONDS)
        try:
            await _look()
        except Exception as error:
            if not report_outage(error):
                log.exception("alerting: this round failed")


async def _run_retention() -> None:
    """Apart from the clock, which must not wait for a long run to be read."""
    while True:
        await asyncio.sleep(RETENTION_SECONDS)
        try:
            await _keep()
            await _retain()
        except Exception as error:
            if not report_outage(error):
                log.exception("retention: this round failed")


async def _run_memory() -> None:
    while True:
        await asyncio.sleep(MEMORY_SECONDS)
        await _release()


async def _run_search_index() -> None:
    """Without a long pause while calls wait, as after an update of the server; rarely while the process is busy."""
    added_count, last_round = 0, time.monotonic()
    while True:
        earlier_frames, pause = gate.count_received_frames(), INDEX_PAUSE if added_count else INDEX_SECONDS
        await activity.sleep(pause, pause if added_count else MEMORY_SECONDS)
        is_busy = gate.count_received_frames() - earlier_frames > BUSY_RATE * pause
        if is_busy and time.monotonic() - last_round < INDEX_DELAY:
            continue
        added_count = 0
        try:
            added_count = await _index()
        except Exception as error:
            if not report_outage(error):
                log.exception("search index: this round failed")
        last_round = time.monotonic()


async def _run_verification() -> None:
    """Once an hour one of the server's processes verifies the audit trail; its end is looked at every minute."""
    while True:
        await asyncio.sleep(GLANCE_SECONDS)
        try:
            await _verify()
        except Exception as error:
            if not report_outage(error):
                log.exception("audit: the trail could not be verified")


async def _run_anchor_copies() -> None:
    while settings.TOOLCARDS.audit_copy:
        await asyncio.sleep(anchor_copies.CHECK_SECONDS)
        try:
            await _copy()
        except Exception as error:
            if not report_outage(error):
                log.exception("audit: the anchor could not be copied")


def verify_if_due(now: float | None = None) -> verification.TrailFinding | None:
    """Verify the trail hourly, or when its end looks wrong.

    A fault is logged and sent as an alert.
    """
    last = verification.get_last_result()
    recent = last is not None and (time.time() if now is None else now) - last.at < VERIFICATION_SECONDS
    if last is not None and recent and _is_unchanged(last.finding):
        return None
    finding = verification.verify_and_store()
    if finding.fault:
        log.error("audit: %s: %s", finding.title, finding.fault)
        source_alerts.write_audit_alert(finding)
    return finding


def _is_unchanged(finding: verification.TrailFinding) -> bool:
    """Return whether the end of the trail gives no reason to verify it again.

    An unwritten anchor (full disk) can recover; no other fault disappears by itself.
    """
    if finding.fault and finding.kind != "unanchored":
        return True
    return bool(finding.fault) == bool(verification.check_end().fault)


_copy = database_sync_to_async(anchor_copies.send_due, thread_sensitive=False)
_verify = database_sync_to_async(verify_if_due, thread_sensitive=False)
