"""Commit marks: find out whether a commit happened although its reply was lost.

If PostgreSQL commits and the connection breaks, the writer sees an error, and a retry would write every frame twice.
So each process numbers its group commits in a row of its own, inside the transaction. PostgreSQL's transaction ids
are no substitute: after a crash, it reuses ids that were not yet on disk.

SQLite needs no marks: its COMMIT is a function call in this process, and if it raises, nothing was committed.
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
MAX_AGE = 86_400.0  # seconds after which the row of an ended process is deleted
PATIENCE = 5.0  # seconds to find out
_WRITE = (
    "INSERT INTO toolcards_groupcommit (process, number, at) VALUES (%s, %s, %s)"
    " ON CONFLICT (process) DO UPDATE SET number = EXCLUDED.number, at = EXCLUDED.at"
)
# Waits for a transaction that still locks the row, and does not change the number.
_READ = (
    "INSERT INTO toolcards_groupcommit AS ours (process, number, at) VALUES (%s, 0, %s)"
    " ON CONFLICT (process) DO UPDATE SET number = ours.number RETURNING number"
)
# Ends a session that the server still considers open. Its COMMIT did not arrive, and cannot arrive later.
_END_SESSION = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid = %s AND datname = current_database() AND state LIKE 'idle in%%'"
)
_last_mark = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """The number of a transaction, and the pid of its session."""

    number: int
    session: int


def write_mark() -> Mark | None:
    """Write the mark as the last statement of the transaction.

    None if no reply can be lost.
    """
    global _last_mark
    if connection.vendor != "postgresql" or len(connection.atomic_blocks) > 1:  # an outer transaction commits
        return None
    _last_mark += 1
    now = time.time()
    with connection.cursor() as cursor:
        if _last_mark == 1:
            cursor.execute("DELETE FROM toolcards_groupcommit WHERE at < %s", [now - MAX_AGE])
        cursor.execute(_WRITE, [PROCESS, _last_mark, now])
    return Mark(_last_mark, connection.connection.info.backend_pid)


def is_committed(mark: Mark) -> bool | None:
    """Return whether that transaction was committed.

    None if the database does not answer in time.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return _last_number() == mark.number
        except Exception as error:
            if not is_transient(error):
                log.exception("writer: cannot determine whether commit %s happened", mark.number)
                return None
            if time.monotonic() > deadline:
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
