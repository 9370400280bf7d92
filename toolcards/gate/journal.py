"""Group commit: whatever arrives within a few milliseconds is one transaction, one at a time per process.

Work comes in two ways: `submit` hands it to the writer thread and may share its transaction with others;
`do` runs it here and now, for callers that are threads already. A transaction that fails as a whole is
tried again work by work, so that one bad piece cannot lose its neighbours; a busy database is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterable
from typing import Any, Protocol

from django.db import OperationalError, close_old_connections, transaction

from toolcards import doorbell
from toolcards.gate.transaction import Transaction

log = logging.getLogger(__name__)
GATHER = 0.004  # seconds to wait for company after the first piece of unhurried work
BUSY_TRIES = 8
BACKLOG = 20_000  # frames taken in but not committed; above it sockets are not read


class Work(Protocol):
    """A piece of writing. `apply` may be called again after a rollback, so it keeps nothing of a first try."""

    urgent: bool

    def dequeued(self) -> None:
        """Called once for each time it was queued, before it is applied: from here on it may be queued again."""
        ...

    def runs(self) -> Iterable[tuple[int, str]]:
        """The (source, name) of the runs it will touch, as far as it knows."""
        ...

    def apply(self, tx: Transaction) -> None:
        """Write; leave the `answer`, or raise what the caller gets."""
        ...

    def settled(self, error: Exception | None) -> None:
        """Called once, after the commit or when all is lost."""
        ...


_commit_lock = threading.Lock()


def do(work: Any) -> Any:
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

    def done() -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(wake)

    work.done = done
    WRITER.put(work)
    await future
    if work.error is not None:
        raise work.error
    return work.answer


def commit(works: list[Any]) -> None:
    """Write these works, together if that goes, else one by one; every one is settled afterwards."""
    with _commit_lock:
        failure = _attempt(works)
        if failure is None:
            failures: list[Exception | None] = [None] * len(works)
        elif len(works) == 1:
            failures = [failure]
        else:
            failures = [_attempt([work]) for work in works]
    for work, error in zip(works, failures, strict=True):
        work.settled(error)


def _attempt(works: list[Any]) -> Exception | None:
    for patience in range(BUSY_TRIES):
        tx = Transaction(time.time())
        try:
            with transaction.atomic():
                tx.lock(key for work in works for key in work.runs())
                for work in works:
                    work.apply(tx)
                tx.flush()
                news = tx.committed()
                transaction.on_commit(lambda news=news: doorbell.ring(news), robust=True)  # type: ignore[misc]
            tx.tell_steps()
            return None
        except OperationalError as error:  # busy or away: the batch waits, nothing is lost
            tx.forget()
            if patience == BUSY_TRIES - 1 or transaction.get_connection().in_atomic_block:
                return error
            log.warning("journal: the database is busy, trying again")
            close_old_connections()
            time.sleep(0.02 * 2**patience)
        except Exception as error:
            tx.forget()
            return error
    return None


class Writer:
    """The thread that commits what sockets and requests hand in."""

    def __init__(self) -> None:
        self._queue: list[Any] = []
        lock = threading.Lock()
        self._ready, self._idle = threading.Condition(lock), threading.Condition(lock)
        self._urgent = self._busy = False
        self._thread: threading.Thread | None = None
        # Two counters with one writing thread each: `+=` on one shared number loses counts between threads.
        self.taken_in = 0
        self.written = 0

    def put(self, work: Any) -> None:
        """Queue the work; returns at once."""
        with self._ready:
            self._queue.append(work)
            self._urgent = self._urgent or work.urgent
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
                self._thread.start()
            self._ready.notify()

    @property
    def backlog(self) -> int:
        """How many frames are taken in and not committed."""
        return self.taken_in - self.written

    @property
    def full(self) -> bool:
        """Too much is taken in and not written: readers should wait."""
        return self.taken_in - self.written > BACKLOG

    def drain(self, timeout: float = 30) -> bool:
        """Wait until all that was handed in is written (shutdown); return whether it was, in that time."""
        with self._ready:  # between being taken from the queue and being busy there is no gap to look into
            return self._idle.wait_for(lambda: not self._queue and not self._busy, timeout)

    def _write(self) -> None:
        while True:
            works = self._gathered()
            try:
                commit(works)
            finally:
                with self._ready:
                    self._busy = False
                    self._idle.notify_all()

    def _gathered(self) -> list[Any]:
        with self._ready:
            while not self._queue:
                self._ready.wait()
            until = time.monotonic() + GATHER
            while not self._urgent and (left := until - time.monotonic()) > 0:
                self._ready.wait(left)
            works, self._queue, self._urgent, self._busy = self._queue, [], False, True
        for work in works:
            work.dequeued()
        return works


WRITER = Writer()
