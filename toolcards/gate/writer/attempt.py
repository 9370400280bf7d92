"""One try to write works in a transaction, and what is known of its works afterwards.

A request that is refused before it has written to the database does not disturb the other works: it gets its error, and
they are committed. Anything else that fails rolls all of them back.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from django.db import OperationalError, connection, transaction

from toolcards import doorbell
from toolcards.audit import trail
from toolcards.clocks import clock
from toolcards.database import LONGEST_PAUSE, is_transient
from toolcards.gate import call_trace, timekeeping
from toolcards.gate.refusals import RequestRefused
from toolcards.gate.source_usage import usage_book
from toolcards.gate.writer.cache.run_cache import RollbackLog
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import prepared_selects
from toolcards.models.write_guard import allow_log_writes

# Commit marks: find out whether a commit happened although its reply was lost.
#
# If PostgreSQL commits and the connection breaks, the writer sees an error, and a retry would write every frame twice.
# So each process numbers its group commits in a row of its own, inside the transaction. PostgreSQL's transaction ids
# are no substitute: after a crash, it reuses ids that were not yet on disk.
#
# SQLite needs no marks: its COMMIT is a function call in this process, and if it raises, nothing was committed.
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


log = logging.getLogger(__name__)
_READS = ("SELECT", "SAVEPOINT", "RELEASE SAVEPOINT")
_NEW_RUN = 'INSERT INTO "toolcards_run" '


class CommitUnknown(OperationalError):
    """The reply to a COMMIT was lost, and the database stays unavailable: the work may or may not be written."""


@dataclass(slots=True)
class CommitAttempt:
    """The result of a try.

    `error`: why nothing was written, None after a commit; `culprit`: the position of the work that raised it, -1 if
    none did. `refusals`: position -> error of the works that were refused while the others were committed.
    """

    error: Exception | None = None
    culprit: int = -1
    refusals: dict[int, Exception] = field(default_factory=dict)


def attempt(works: list[Any]) -> CommitAttempt:
    """Try to write these works in one transaction."""
    tx, result, mark = Transaction(clock.wall()), CommitAttempt(), None
    watch = _StatementWatch()
    hooks: list[Any] = []
    try:
        with (
            allow_log_writes(),
            prepared_selects.open_memo(),
            transaction.atomic(),
            trail.hold_acts(tx.audit_acts),
        ):
            if clock.is_stale:  # the process may have been stopped or asleep
                timekeeping.advance_pulse()
            tx.lock_runs(
                [key for work in works for key in work.run_keys()],
                lambda: [pk for work in works for pk in work.list_approvals()],
            )
            with watch.count_statements():
                for position, work in enumerate(works):
                    _apply(tx, watch, work, position, result)
            has_written = tx.flush() or watch.has_written
            news = tx.finish_commit()
            transaction.on_commit(lambda: doorbell.ring(news), robust=True)
            if has_written:
                usage_book.store()
                mark = write_mark()
            hooks = list(transaction.get_connection().run_on_commit)  # Django drops them when COMMIT fails
    except Exception as error:
        result.error = _recover(tx, mark, hooks, error)
        if result.error is not None:
            return result
    try:
        for run, step in tx.trace_steps:
            call_trace.log_step(run, step)
    except Exception:  # the works are written
        log.exception("writer: the call trace was not written")
    return result


def _apply(tx: Transaction, watch: _StatementWatch, work: Any, position: int, result: CommitAttempt) -> None:
    """Apply the work; undo it if it is refused before it wrote."""
    hooks = transaction.get_connection().run_on_commit
    before = (watch.writes, len(hooks))
    tx.rollback_log = RollbackLog(tx) if isinstance(work, Command) else None
    try:
        work.apply(tx)
    except RequestRefused as refusal:
        if (watch.writes, len(hooks)) != before or (tx.rollback_log is None and tx.has_changes(work.run_keys())):
            result.culprit = position
            raise
        if tx.rollback_log is not None:
            tx.rollback_log.roll_back()
        result.refusals[position] = refusal
    except Exception:
        result.culprit = position
        raise
    else:
        if tx.changed_approvals:
            tx.write_known_approvals()


def _recover(tx: Transaction, mark: Mark | None, hooks: list[Any], failure: Exception) -> Exception | None:
    """Return why nothing was written.

    None if only the reply to COMMIT was lost.
    """
    if mark is None or not is_transient(failure):  # it failed before COMMIT, or was refused
        tx.forget()
        return failure
    was_committed = is_committed(mark)
    if not was_committed:
        tx.forget()
        return (
            failure if was_committed is False else CommitUnknown(f"it is unknown whether this was written: {failure}")
        )
    for _, hook, _ in hooks:
        try:
            hook()
        except Exception:
            log.exception("writer: a callback after a commit failed")
    return None


class _StatementWatch:
    """Counts the statements of works that may write."""

    def __init__(self) -> None:
        self.writes = 0  # without new runs, which can be deleted again
        self.has_written = False

    def count_statements(self) -> AbstractContextManager[None]:
        """Count this thread's statements in the block."""
        return connection.execute_wrapper(self._count)

    def _count(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith(_READS):
            self.has_written = True
            self.writes += not sql.startswith(_NEW_RUN)
        return execute(sql, params, many, context)
