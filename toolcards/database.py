"""Temporary database failures: recognize their errors, and retry reads.

Connections recover by themselves (`toolcards.postgresql`). Statements that fail in the meantime are retried for a few
seconds: reads here, writes by the group commit. After that, the response is 503.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from channels.db import database_sync_to_async
from django.db import InterfaceError, InternalError, OperationalError, connection
from django.db.transaction import TransactionManagementError

from toolcards import outages
from toolcards.long_reads import Turns

T = TypeVar("T")
PATIENCE = 3.0  # seconds that a request's read is tried again
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5  # seconds between two tries
RETRY_AFTER = 2  # seconds that clients are asked to wait
# SQLite raises the same error class for "no such table", so these are recognized by their text.
_SQLITE = (
    "locked", "disk i/o error", "disk is full", "readonly database", "unable to open database file", "interrupted",
)  # fmt: skip
_READ_ONLY = "25006"  # PostgreSQL's code on a server that has become a standby


def is_transient(error: BaseException | None) -> bool:
    """Return whether the database is temporarily unavailable, full, locked or read-only."""
    # The driver's own errors come where Django closes a cursor, after `iterator`.
    driver: Any = connection.Database  # type: ignore[attr-defined]
    if isinstance(error, TransactionManagementError):  # raised by statements after a failure in the same transaction
        return is_transient(error.__cause__)
    if isinstance(error, (InterfaceError, driver.InterfaceError)):  # "the connection is closed"
        return True
    if isinstance(error, InternalError):
        return getattr(error.__cause__, "sqlstate", None) == _READ_ONLY
    if not isinstance(error, (OperationalError, driver.OperationalError)):
        return False
    words = str(error).lower()
    return connection.vendor != "sqlite" or any(word in words for word in _SQLITE)


def report_outage(error: BaseException, part: str = outages.READING) -> bool:
    """Report the error as an outage if it is transient; return whether."""
    transient = is_transient(error)
    if transient:
        outages.report_failure(part, error)
    return transient


@contextmanager
def limit_lock_waits(seconds: float) -> Iterator[None]:
    """Limit how long this thread waits for SQLite's lock, in seconds."""
    if connection.vendor != "sqlite":
        yield
        return
    _set_lock_wait(seconds)
    try:
        yield
    finally:
        _set_lock_wait(connection.settings_dict["OPTIONS"].get("timeout", 5))


def _set_lock_wait(seconds: float) -> None:
    with suppress(OperationalError), connection.cursor() as cursor:  # a database that cannot be opened needs no limit
        cursor.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")


async def read_with_retries(read: Callable[[], Awaitable[T]], seconds: float = PATIENCE) -> T:
    """Return the result of `read`; retry while the database is unavailable.

    `seconds`: for how long to retry.
    """
    deadline, pause = time.monotonic() + seconds, FIRST_PAUSE
    while True:
        try:
            result = await read()
        except Exception as error:
            if not report_outage(error) or time.monotonic() + pause > deadline:
                raise
        else:
            outages.report_success(outages.READING)
            return result
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def retry_reads(function: Callable[..., T], turns: Turns | None = None) -> Callable[..., Awaitable[T]]:
    """Make an asynchronous function that reads with retries.

    It runs in a thread of the pool, or in turns with others.
    """
    read_in_pool = database_sync_to_async(function, thread_sensitive=False)

    @functools.wraps(function)
    async def read(*args: Any, **kwargs: Any) -> T:
        if turns is not None:
            return await read_with_retries(lambda: turns.run(lambda: function(*args, **kwargs)))
        return await read_with_retries(lambda: read_in_pool(*args, **kwargs))

    return read
