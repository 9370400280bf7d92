"""Group commit: work that arrives within a few milliseconds shares a transaction; one transaction runs at a time.

`submit` hands work to the writer thread, `execute` runs it in a transaction of its own on the calling thread. A work
that fails does not take the others with it (see `attempt`): they are written in their order without it. A busy
database is retried. If it stays unavailable, that is an outage: until a work succeeds, each is tried once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from django.db import connection, transaction

from toolcards import outages
from toolcards.database import is_transient, limit_lock_waits
from toolcards.gate.writer.attempt import CommitAttempt, CommitUnknown, attempt
from toolcards.gate.writer.transaction import Transaction

log = logging.getLogger(__name__)
GATHER = 0.004  # seconds to wait for more work, unless some is urgent
GATHER_URGENT = 0.001  # seconds that urgent work waits for as many others as the last commits had
PATIENCE = 5.0  # seconds to retry when the database fails; none while writes fail
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5  # seconds between two tries
QUIET_TRIES = 3  # a database that is busy for a moment is not an outage
BACKLOG = 20_000  # frames received but not committed; above it, sockets are not read


class Work(Protocol):
    """Work for the writer. `apply` can be called again after a rollback, so it must not depend on earlier calls."""

    urgent: bool

    def mark_dequeued(self) -> None:
        """Leave the queue: the writer calls this before `apply`.

        From here on the work can be queued again.
        """
        ...

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """Return the runs that it will change, each as (source pk, name)."""
        ...

    def list_approvals(self) -> Iterable[str]:
        """Return ids of approvals, or permits, whose runs it will change."""

    def apply(self, tx: Transaction) -> None:
        """Write; set the `answer`, or raise the error for the caller."""
        ...

    def finish(self, error: Exception | None) -> None:
        """Wake the caller: the writer calls this once, after commit or failure."""
        ...


_commit_lock = threading.Lock()
_finishing = threading.local()  # `callbacks`: by event loop, while this thread finishes the works of a commit


def execute(work: Any) -> Any:
    """Run the work in its own transaction on this thread.

    Return its `answer` or raise its error.
    """
    commit([work])
    if work.error is not None:
        raise work.error
    return work.answer


def execute_in_group(work: Any) -> Any:
    """Hand the work to the writer thread and block this one.

    Return its `answer` once committed, or raise its error.
    Works of many threads share a transaction. Inside an outer transaction the work runs on this thread.
    """
    if connection.in_atomic_block:
        return execute(work)
    finish_event = threading.Event()
    work.on_finish = finish_event.set
    WRITER.enqueue(work)
    finish_event.wait()
    if work.error is not None:
        raise work.error
    return work.answer


async def submit(work: Any) -> Any:
    """Hand the work to the writer thread.

    Return its `answer` once committed, or raise its error.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    work.on_finish = lambda: call_on_loop(loop, wake)
    WRITER.enqueue(work)
    await future
    if work.error is not None:
        raise work.error
    return work.answer


def commit(works: list[Any]) -> None:
    """Write these works in as few transactions as possible; finish each."""
    with _commit_lock:
        is_failing = outages.is_failing(outages.WRITING)
        deadline = time.monotonic() + (0 if is_failing else PATIENCE)
        with limit_lock_waits(LONGEST_PAUSE) if is_failing else contextlib.nullcontext():
            try:
                failures = _write(works, deadline)
            except Exception as error:  # outside of any work: each sender hears it, and the thread continues
                log.exception("writer: a commit failed")
                failures = [error] * len(works)
    _finish(works, failures)


def _finish(works: list[Any], failures: list[Exception | None]) -> None:
    """Finish the works in order. Each event loop is woken once, which is expensive."""
    callbacks: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
    _finishing.callbacks = callbacks
    try:
        for work, error in zip(works, failures, strict=True):
            try:
                work.finish(error)
            except Exception:  # the others still have to hear
                log.exception("writer: a callback after a commit failed")
    finally:
        _finishing.callbacks = None
        for loop, functions in callbacks.items():
            with contextlib.suppress(RuntimeError):  # the event loop has closed, so no one waits any longer
                loop.call_soon_threadsafe(_call_all, functions)


def call_on_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call the function soon on the event loop, from any thread.

    Calls of one commit share a wake-up.
    """
    callbacks = getattr(_finishing, "callbacks", None)
    if callbacks is not None:
        callbacks.setdefault(loop, []).append(function)
        return
    with contextlib.suppress(RuntimeError):  # the event loop has closed
        loop.call_soon_threadsafe(function)


def _call_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        try:
            function()
        except Exception:
            log.exception("writer: a callback after a commit failed")


def _write(works: list[Any], deadline: float) -> list[Exception | None]:
    """Write these works in their order; return the error of each, or None.

    A work that fails together with others is written alone, after those before it. After a database failure, the rest
    fails with the same error.
    """
    failures: list[Exception | None] = []
    groups = [works]
    while groups:
        group = groups.pop(0)
        outage = failures[-1] if failures and is_transient(failures[-1]) else None
        result = CommitAttempt(outage) if outage is not None else _write_group(group, deadline)
        if result.error is None:
            failures += [result.refusals.get(position) for position in range(len(group))]
        elif len(group) == 1 or is_transient(result.error):
            failures += [result.error] * len(group)
        else:
            groups[:0] = _split(group, result.culprit)
    return failures


def _split(group: list[Any], culprit: int) -> list[list[Any]]:
    """Return the parts to write in order; halves if no culprit is known."""
    if culprit < 0:
        middle = len(group) // 2
        return [group[:middle], group[middle:]]
    parts = group[:culprit], [group[culprit]], group[culprit + 1 :]
    return [part for part in parts if part]


def _write_group(works: list[Any], deadline: float) -> CommitAttempt:
    """Write these works in one transaction, with retries while the database fails."""
    tries = 0
    while True:
        result = attempt(works)
        error = result.error
        if not is_transient(error):
            if error is None:
                outages.report_success(outages.WRITING)
            return result
        assert error is not None
        tries, is_late = tries + 1, time.monotonic() >= deadline
        if transaction.get_connection().in_atomic_block or type(error) is CommitUnknown:
            is_late = True  # an outer transaction, or work that may be written, must not be repeated
        if is_late or tries > QUIET_TRIES:
            outages.report_failure(outages.WRITING, error)
        if is_late:
            return result
        time.sleep(min(FIRST_PAUSE * 2**tries, LONGEST_PAUSE))


class Writer:
    """The thread that commits the work of sockets and requests."""

    def __init__(self) -> None:
        self._queue: list[Any] = []
        self._waits_since = 0.0  # monotonic time since which the oldest work waits, 0 if none does
        lock = threading.Lock()
        self._ready, self._idle = threading.Condition(lock), threading.Condition(lock)
        self._urgent = self._busy = False
        self._expected = 1  # works that usually arrive together, because recent senders send again
        self._thread: threading.Thread | None = None
        # Two counters, each changed by one thread: `+=` on a shared number loses counts between threads.
        self.frames_received = 0
        self.frames_committed = 0

    def enqueue(self, work: Any) -> None:
        """Queue the work and return at once."""
        with self._ready:
            self._queue.append(work)
            self._waits_since = self._waits_since or time.monotonic()
            must_wake = len(self._queue) in (1, self._expected) or (work.urgent and not self._urgent)
            self._urgent = self._urgent or work.urgent
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
                self._thread.start()
            if must_wake:
                self._ready.notify()

    @property
    def backlog(self) -> int:
        """Return the number of frames received but not committed."""
        return max(0, self.frames_received - self.frames_committed)

    @property
    def oldest_wait(self) -> float:
        """Return the seconds that the oldest work has waited, or 0."""
        start = self._waits_since
        return time.monotonic() - start if start else 0.0

    @property
    def is_full(self) -> bool:
        """Return whether the backlog is too large; readers should wait."""
        return self.frames_received - self.frames_committed > BACKLOG

    def drain(self, timeout: float = 30) -> bool:
        """Wait until all work is written, for at most `timeout` seconds.

        Return whether it is (for shutdown).
        """
        with self._ready:  # work leaves the queue and the writer becomes busy under one lock
            return self._idle.wait_for(lambda: not self._queue and not self._busy, timeout)

    def _write(self) -> None:
        while True:
            works = self._gather()
            try:
                commit(works)
            finally:
                with self._ready:
                    self._busy = False
                    self._waits_since = time.monotonic() if self._queue else 0.0
                    self._idle.notify_all()

    def _gather(self) -> list[Any]:
        with self._ready:
            while not self._queue:
                self._ready.wait()
            deadline = time.monotonic() + GATHER
            while not self._urgent and (seconds_left := deadline - time.monotonic()) > 0:
                self._ready.wait(seconds_left)
            deadline = time.monotonic() + GATHER_URGENT
            while len(self._queue) < self._expected and (seconds_left := deadline - time.monotonic()) > 0:
                self._ready.wait(seconds_left)
            if self._urgent:
                self._expected = max(len(self._queue), self._expected - 1)
            works, self._queue, self._urgent, self._busy = self._queue, [], False, True
        for work in works:
            work.mark_dequeued()
        return works


WRITER = Writer()
