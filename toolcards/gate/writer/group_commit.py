"""Group commit: whatever arrives within a few milliseconds is one transaction, one at a time per process.

Work comes in two ways: `submit` hands it to the writer thread and may share its transaction with others;
`do` runs it here and now, for callers that are threads already. A transaction in which a piece is refused is
tried again work by work, so that one bad piece cannot lose its neighbours. A busy database is waited for; one that
stays away for longer is an outage, in which all works are tried once and refused at once, until one succeeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterable
from typing import Any, Protocol

from django.db import OperationalError, transaction

from toolcards import doorbell, outages
from toolcards.clocks import clock
from toolcards.database import is_transient, limit_lock_waits
from toolcards.gate.writer import commit_marks, timekeeping
from toolcards.gate.writer.transaction import Transaction
from toolcards.models.write_guard import allow_log_writes

log = logging.getLogger(__name__)
GATHER = 0.004  # seconds to wait for company after the first piece of unhurried work
PATIENCE = 5.0  # seconds to try again when the database goes away; while it is known to be away, none
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5  # seconds between two tries
QUIET_TRIES = 3  # a database that is busy for a moment is no outage
BACKLOG = 20_000  # frames taken in but not committed; above it sockets are not read


class CommitUnknown(OperationalError):
    """The answer of a COMMIT was lost, and the database stays away: what was to be written may be there, or not."""


class Work(Protocol):
    """A piece of writing. `apply` may be called again after a rollback, so it keeps nothing of a first try."""

    urgent: bool

    def mark_dequeued(self) -> None:
        """Called once for each time it was queued, before it is applied: from here on it may be queued again."""
        ...

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """The (source, name) of the runs it will touch, as far as it knows."""
        ...

    def apply(self, tx: Transaction) -> None:
        """Write; leave the `answer`, or raise what the caller gets."""
        ...

    def finish(self, error: Exception | None) -> None:
        """Called once, after the commit or when all is lost."""
        ...


_commit_lock = threading.Lock()


def execute(work: Any) -> Any:
    """Run the work in a transaction of its own, now, on this thread; return its `answer` or raise its error."""
    commit([work])
    if work.error is not None:
        raise work.error
    return work.answer


async def submit(work: Any) -> Any:
    """Hand the work to the writer thread; return its `answer` once committed, or raise its error."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    def on_finish() -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(wake)

    work.on_finish = on_finish
    WRITER.enqueue(work)
    await future
    if work.error is not None:
        raise work.error
    return work.answer


def commit(works: list[Any]) -> None:
    """Write these works, together if that goes, else one by one; every one is settled afterwards."""
    with _commit_lock:
        known = outages.get_outage(outages.WRITING) is not None
        until = time.monotonic() + (0 if known else PATIENCE)
        with limit_lock_waits(LONGEST_PAUSE) if known else contextlib.nullcontext():
            failures = [_write(works, until)] * len(works)
            if len(works) > 1 and failures[0] is not None and not is_transient(failures[0]):
                failures = _write_each(works, until)
    for work, error in zip(works, failures, strict=True):
        work.finish(error)


def _write_each(works: list[Any], until: float) -> list[Exception | None]:
    """Write these works one by one. Once the database is away, it is for the rest of them too."""
    failures: list[Exception | None] = []
    for work in works:
        away = failures[-1] if failures and is_transient(failures[-1]) else None
        failures.append(away or _write([work], until))
    return failures


def _write(works: list[Any], until: float) -> Exception | None:
    """Write these works in one transaction, again while the database is busy or away; return what made it fail."""
    tries = 0
    while True:
        error = _attempt(works)
        if not is_transient(error):
            if error is None:
                outages.report_success(outages.WRITING)
            return error
        assert error is not None
        tries, late = tries + 1, time.monotonic() >= until
        if transaction.get_connection().in_atomic_block or type(error) is CommitUnknown:
            late = True  # what another one began is not ours to repeat, nor what may have been written
        if late or tries > QUIET_TRIES:
            outages.report_failure(outages.WRITING, error)
        if late:
            return error
        time.sleep(min(FIRST_PAUSE * 2**tries, LONGEST_PAUSE))


def _attempt(works: list[Any]) -> Exception | None:
    tx, mark = Transaction(clock.wall()), None
    hooks: list[Any] = []
    try:
        with allow_log_writes(), transaction.atomic():
            timekeeping.catch_up()
            tx.lock_runs(key for work in works for key in work.run_keys())
            for work in works:
                work.apply(tx)
            tx.flush()
            news = tx.finish_commit()
            transaction.on_commit(lambda: doorbell.ring(news), robust=True)
            mark = commit_marks.write_mark()
            hooks = list(transaction.get_connection().run_on_commit)  # Django drops them when COMMIT fails
    except Exception as error:
        return _after_failure(tx, mark, hooks, error)
    tx.log_steps()
    return None


def _after_failure(
    tx: Transaction, mark: commit_marks.Mark | None, hooks: list[Any], failure: Exception
) -> Exception | None:
    """Return why nothing was written; None if only the answer of COMMIT was lost."""
    if mark is None or not is_transient(failure):  # the transaction did not get as far as its COMMIT, or was refused
        tx.forget()
        return failure
    happened = commit_marks.is_committed(mark)
    if not happened:
        tx.forget()
        return failure if happened is False else CommitUnknown(f"it is not known whether this was written: {failure}")
    for _, hook, _ in hooks:
        try:
            hook()
        except Exception:
            log.exception("journal: a step after a commit failed")
    tx.log_steps()
    return None


class Writer:
    """The thread that commits what sockets and requests hand in."""

    def __init__(self) -> None:
        self._queue: list[Any] = []
        self._waits_since = 0.0  # on the monotonic clock: since when the oldest work waits, 0 if none does
        lock = threading.Lock()
        self._ready, self._idle = threading.Condition(lock), threading.Condition(lock)
        self._urgent = self._busy = False
        self._thread: threading.Thread | None = None
        # Two counters with one writing thread each: `+=` on one shared number loses counts between threads.
        self.frames_received = 0
        self.frames_committed = 0

    def enqueue(self, work: Any) -> None:
        """Queue the work; returns at once."""
        with self._ready:
            self._queue.append(work)
            self._waits_since = self._waits_since or time.monotonic()
            self._urgent = self._urgent or work.urgent
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
                self._thread.start()
            self._ready.notify()

    @property
    def backlog(self) -> int:
        """How many frames are taken in and not committed."""
        return self.frames_received - self.frames_committed

    @property
    def oldest_wait(self) -> float:
        """For how many seconds the oldest work has waited."""
        since = self._waits_since
        return time.monotonic() - since if since else 0.0

    @property
    def is_full(self) -> bool:
        """Too much is taken in and not written: readers should wait."""
        return self.frames_received - self.frames_committed > BACKLOG

    def drain(self, timeout: float = 30) -> bool:
        """Wait until all that was handed in is written (shutdown); return whether it was, in that time."""
        with self._ready:  # between being taken from the queue and being busy there is no gap to look into
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
            until = time.monotonic() + GATHER
            while not self._urgent and (left := until - time.monotonic()) > 0:
                self._ready.wait(left)
            works, self._queue, self._urgent, self._busy = self._queue, [], False, True
        for work in works:
            work.mark_dequeued()
        return works


WRITER = Writer()
