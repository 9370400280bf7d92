"""Follow runs: read, wait for the bell, read again. Never writes and never blocks a thread.

A lost ring delays a follower by one heartbeat; a slow follower sees the latest state instead of every state.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.conf import settings
from django.db.models.functions import Length

from toolcards.adapters import ADAPTERS
from toolcards.clocks import clock
from toolcards.database import read_with_retries, report_outage
from toolcards.doorbell import EVERY_RUN, Listener, get_approvals_bell, listen
from toolcards.long_reads import followers
from toolcards.models import Approval, Event
from toolcards.models.approvals import ApprovalStatus, select_statuses

HEARTBEAT = 2.0  # seconds after which a follower reads without a ring
PAGE = 500
FIRST = 16  # events that are read whatever their size; fewer than these are all there are
MAX_BATCH = 1 << 18  # characters of the facts of one batch beyond the first ones: a fact can have a megabyte


async def follow_events(run: int, after: int = 0) -> AsyncIterator[list[Event]]:
    """Yield the run's events after that position in batches, forever.

    An empty batch is a heartbeat.
    """
    async with listen(run) as bell:
        while True:
            try:
                batch = await followers.run(lambda: _select_events(run, after, PAGE))  # noqa: B023 - awaited here
            except Exception as error:
                if not report_outage(error):
                    raise
                batch = []  # a heartbeat follows, then the next read
            if batch:
                after = batch[-1].seq
                yield batch
            if len(batch) < FIRST:
                await bell.wait(HEARTBEAT)
                if not batch:
                    yield []


async def read_events(run: int, after: int, most: int) -> list[Event]:
    """Return at most `most` of the run's events after that position.

    Fewer if they are large; fewer than `FIRST` only at the end.
    """
    return await read_with_retries(lambda: followers.run(lambda: _select_events(run, after, most)))


def _select_events(run: int, after: int, most: int) -> list[Event]:
    events = list(Event.objects.after(run, after)[:FIRST])
    if len(events) < FIRST or sum(len(event.fact) for event in events) > MAX_BATCH:
        return events
    following, total, last = Event.objects.after(run, events[-1].seq), 0, 0
    for seq, size in following.annotate(size=Length("fact")).values_list("seq", "size")[: most - FIRST]:
        total += size
        last = seq if total <= MAX_BATCH else last
    return [*events, *following.filter(seq__lte=last)]


async def list_undelivered(run: int, channel: str = "socket") -> list[str]:
    """Return the ids of the answers to deliver now on that channel."""
    rows = Approval.objects.unsent(run, channel=channel).values_list("id", "state", "decided_at", "opener")
    answers = [(pk, opener) async for pk, state, decided_at, opener in rows if not _is_held_back(state, decided_at)]
    if any(opener == "agent" for _, opener in answers) and await _is_batch_incomplete(run):
        answers = [(pk, opener) for pk, opener in answers if opener == "gate"]
    return [pk for pk, _ in answers]


async def _is_batch_incomplete(run: int) -> bool:
    """Return whether the agent needs all answers at once (AG-UI) and some are missing."""
    open_approvals = Approval.objects.filter(run=run, opener="agent", state="pending").select_related("run")
    pending = await open_approvals.afirst()
    return pending is not None and ADAPTERS[pending.run.protocol].encode_all is not None


async def follow_answers(run: int, channel: str = "socket") -> AsyncIterator[str]:
    """Yield the id of each answer once it can be delivered, forever.

    Only answers to the run's agent on that channel.
    """
    with _watch_run(run, channel) as watch:
        async with listen(get_approvals_bell(run)) as bell:
            while True:
                for approval in await read_with_retries(lambda: list_undelivered(run, channel), math.inf):
                    yield approval
                while not await bell.wait(_get_pause()) and run not in await watch.find_runs(_get_pause() / 2):
                    pass


def _get_pause() -> float:
    """Return after how many seconds to read without a ring, because an answer that was held back can be due."""
    return min(HEARTBEAT, max(0.2, settings.TOOLCARDS.handover_seconds or HEARTBEAT))


class _UndeliveredWatch:
    """Finds the runs with undelivered answers among those that an event loop's sockets follow, in one query."""

    def __init__(self, channel: str) -> None:
        self.runs: Counter[int] = Counter()
        self._channel, self._read_at = channel, 0.0
        self._task: asyncio.Task[set[int]] | None = None

    async def find_runs(self, age: float) -> set[int]:
        """Return the runs with undelivered answers, at most `age` seconds old."""
        if self._task is None or time.monotonic() - self._read_at > age:
            self._read_at, self._task = time.monotonic(), asyncio.create_task(self._find())
        return await asyncio.shield(self._task)  # a canceled caller does not cancel the query for others

    async def _find(self) -> set[int]:
        rows = Approval.objects.unsent(*self.runs, channel=self._channel).values_list("run_id", flat=True)
        try:
            return {run async for run in rows}
        except Exception as error:
            if not report_outage(error):
                raise
            return set(self.runs)  # each follower reads for itself until the database is back


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _UndeliveredWatch]] = WeakKeyDictionary()


@contextmanager
def _watch_run(run: int, channel: str) -> Iterator[_UndeliveredWatch]:
    watches = _watches.setdefault(asyncio.get_running_loop(), {})
    watch = watches.setdefault(channel, _UndeliveredWatch(channel))
    watch.runs[run] += 1
    try:
        yield watch
    finally:
        watch.runs[run] -= 1
        if not watch.runs[run]:
            del watch.runs[run]


async def wait_for_answer(approval: str, seconds: float, *, source: int | None = None) -> ApprovalStatus:
    """Wait until the approval's answer can be delivered; return its status.

    `seconds`: time limit. `source`: the agent that must have asked for it. Raises Approval.DoesNotExist.
    """
    deadline = time.monotonic() + seconds
    reader = _status_readers.setdefault(asyncio.get_running_loop(), _StatusReader())
    status = await reader.read(approval)
    if status is None or (source is not None and (not status.asked or status.source_id != source)):
        raise Approval.DoesNotExist
    if not _is_ready(status) and (remaining := deadline - time.monotonic()) > 0:
        watches = _answer_watches.setdefault(asyncio.get_running_loop(), {})
        watch = watches.setdefault(status.run_id, _AnswerWatch(status.run_id))
        try:
            status = await watch.wait(status, remaining)
        finally:
            if watch.is_idle:
                watches.pop(status.run_id, None)
    return status


class _StatusReader:
    """Reads statuses for the requests of an event loop. Those that come during a query share the next one."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[ApprovalStatus | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def read(self, approval: str) -> ApprovalStatus | None:
        """Return the current status, None for an unknown approval."""
        future = self._futures.setdefault(approval, asyncio.get_running_loop().create_future())
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await asyncio.shield(future)  # a canceled request does not cancel the others

    async def _run(self) -> None:
        try:
            while self._futures:
                page = {approval: self._futures.pop(approval) for approval in list(self._futures)[:PAGE]}
                await self._answer(page)
        finally:
            self._task = None

    @staticmethod
    async def _answer(page: dict[str, asyncio.Future[ApprovalStatus | None]]) -> None:
        try:
            statuses = {status.id: status for status in await _read_statuses(list(page))}
        except Exception as error:
            for future in page.values():
                future.set_exception(error)
                future.exception()  # its requests may be gone
            return
        for approval, future in page.items():
            future.set_result(statuses.get(approval))


_status_readers: WeakKeyDictionary[asyncio.AbstractEventLoop, _StatusReader] = WeakKeyDictionary()


class _AnswerWatch:
    """Reads the approvals of a run that an event loop's requests wait for, in one query per ring of the run."""

    def __init__(self, run: int) -> None:
        self._run = run
        self._waiters: dict[str, set[asyncio.Future[ApprovalStatus]]] = {}
        self._bell: Listener | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether no request waits."""
        return not self._waiters

    async def wait(self, status: ApprovalStatus, seconds: float) -> ApprovalStatus:
        """Return the status once it is ready; after `seconds`, the old one."""
        future: asyncio.Future[ApprovalStatus] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(status.id, set()).add(future)
        if self._task is None:
            self._task = asyncio.create_task(self._follow())
        elif self._bell is not None:
            self._bell.wake(set())  # the answer may have come before this request listened
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return status
        finally:
            self._waiters[status.id].discard(future)
            if not self._waiters[status.id]:
                del self._waiters[status.id]
            if not self._waiters and self._task is not None:
                self._task.cancel()
                self._task = self._bell = None

    async def _follow(self) -> None:
        try:
            async with listen(get_approvals_bell(self._run)) as bell:
                self._bell = bell
                while True:
                    self._answer(await _read_statuses_forever(list(self._waiters)))
                    await bell.wait(min(HEARTBEAT, max(0.05, settings.TOOLCARDS.handover_seconds or HEARTBEAT)))
        except Exception as error:
            self._task = self._bell = None
            for future in {future for futures in self._waiters.values() for future in futures if not future.done()}:
                future.set_exception(error)

    def _answer(self, statuses: list[ApprovalStatus]) -> None:
        for status in filter(_is_ready, statuses):
            for future in self._waiters.get(status.id, ()):
                if not future.done():
                    future.set_result(status)


_answer_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _AnswerWatch]] = WeakKeyDictionary()


_select_in_pool = database_sync_to_async(select_statuses, thread_sensitive=False)


async def _read_statuses(approvals: list[str]) -> list[ApprovalStatus]:
    return await read_with_retries(lambda: _select_in_pool(approvals))


async def _read_statuses_forever(approvals: list[str]) -> list[ApprovalStatus]:
    """Read the statuses, retrying while the database is unavailable. Each request has its own time limit."""
    pages = [approvals[start : start + PAGE] for start in range(0, len(approvals), PAGE)]
    return [
        status
        for page in pages
        for status in await read_with_retries(lambda page=page: _select_in_pool(page), math.inf)  # type: ignore[misc]
    ]


def _is_ready(status: ApprovalStatus) -> bool:
    return status.state != "pending" and not _is_held_back(status.state, status.decided_at)


def _is_held_back(state: str, decided_at: float) -> bool:
    """Return whether the answer is an approval that can still be revoked."""
    return state == "approved" and clock.is_recent(decided_at, settings.TOOLCARDS.handover_seconds)


__all__ = [
    "EVERY_RUN",
    "follow_answers",
    "follow_events",
    "list_undelivered",
    "read_events",
    "wait_for_answer",
]
