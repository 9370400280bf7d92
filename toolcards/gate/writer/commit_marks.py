"""Whether a commit has happened whose answer was lost: each process numbers its group commits, in a row of its own.

PostgreSQL commits, the connection ends, and the writer sees an error: written again, every frame would be there twice.
The number is written in the transaction itself, so it is there exactly if the rest is. PostgreSQL's own transaction
ids do not tell: after a crash, an id that was not yet on the disk is given out again, to another transaction.

SQLite runs in this process, and its COMMIT is a function call: when it raises, nothing was committed.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass

from django.db import connection, transaction

from toolcards.database import LONGEST_PAUSE, is_transient

log = logging.getLogger(__name__)
PROCESS = secrets.token_hex(16)
MAX_AGE = 86_400.0  # seconds after which the row of a process that has ended is dropped
PATIENCE = 5.0  # seconds to find out
_WRITE = (
    "INSERT INTO toolcards_groupcommit (process, number, at) VALUES (%s, %s, %s)"
    " ON CONFLICT (process) DO UPDATE SET number = EXCLUDED.number, at = EXCLUDED.at"
)
# Waits for a transaction that still holds the row, and leaves the number as it is.
_READ = (
    "INSERT INTO toolcards_groupcommit AS ours (process, number, at) VALUES (%s, 0, %s)"
    " ON CONFLICT (process) DO UPDATE SET number = ours.number RETURNING number"
)
# A session whose end the server has not noticed: its COMMIT has not arrived, and does not arrive any more.
_END_SESSION = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid = %s AND datname = current_database() AND state LIKE 'idle in%%'"
)
_last_mark = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """What a transaction has written to be known by: its number; and the session it ran in."""

    number: int
    session: int


def write_mark() -> Mark | None:
    """Number the open transaction, as its last statement; None where no answer can be lost."""
    global _last_mark
    if connection.vendor != "postgresql" or len(connection.atomic_blocks) > 1:  # the commit of another is not ours
        return None
    _last_mark += 1
    now = time.time()
    with connection.cursor() as cursor:
        if _last_mark == 1:
            cursor.execute("DELETE FROM toolcards_groupcommit WHERE at < %s", [now - MAX_AGE])
        cursor.execute(_WRITE, [PROCESS, _last_mark, now])
    return Mark(_last_mark, connection.connection.info.backend_pid)


def is_committed(mark: Mark) -> bool | None:
    """Return whether that transaction was committed, None where that cannot be found out soon."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return _last_number() == mark.number
        except Exception as error:
            if not is_transient(error):
                log.exception("journal: it cannot be found out whether commit %s has happened", mark.number)
                return None
            if time.monotonic() > until:
                return None
        time.sleep(LONGEST_PAUSE / 2)
        _end_session(mark)


def _last_number() -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '1s'")
        cursor.execute(_READ, [PROCESS, time.time()])
        number: int = cursor.fetchone()[0]
        return number


def _end_session(mark: Mark) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(_END_SESSION, [mark.session])
    except Exception as error:
        if not is_transient(error):
            raise
