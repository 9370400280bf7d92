"""The backend: a thread whose connection has ended gets another one, outside of transactions.

Django keeps a broken connection for as long as its thread does not end a request; threads of this server that follow
runs or write the journal never do. CONN_MAX_AGE decides when a connection returns to the idle ones.
"""

from __future__ import annotations

import select
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from django.db import OperationalError
from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import IsolationLevel
from psycopg.pq import ExecStatus, TransactionStatus

MOST = 12  # connections of one process: several processes share the server's limit, often 100
WAIT = 10.0  # seconds to wait for one of them
OLD = 300.0  # seconds after which an idle connection is closed
PAUSE = 0.25  # seconds after a failed attempt in which others do not try: each may last until a timeout


class IdleConnections:
    """Idle connections to one database, which threads of this process share: `take` and `give` are for any thread.

    The pool of psycopg tries to connect in the background, with pauses that grow to minutes, and lets callers wait in
    the meantime. Here a caller connects itself, and gets an error at once if the server is unavailable.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._idle: list[tuple[float, Any]] = []  # the last one is used first
        # Weak: a thread may end without giving its connection back.
        self._lent: weakref.WeakSet[Any] = weakref.WeakSet()
        self._connecting = 0
        self._failed: tuple[float, str] | None = None

    def take(self, connect: Callable[[], Any]) -> Any:
        """Return a live connection, a new one if none is idle.

        Raises what `connect` raises.
        """
        with self._changed:
            deadline = time.monotonic() + WAIT
            while len(self._lent) + self._connecting >= MOST:
                # In intervals: a garbage-collected connection wakes no one.
                self._changed.wait(0.2)
                if time.monotonic() > deadline:
                    raise OperationalError(f"all {MOST} connections of this process are in use")
            connection = self._take_idle()
            if connection is not None:
                self._lent.add(connection)
                return connection
            if self._failed is not None and time.monotonic() - self._failed[0] < PAUSE:
                raise OperationalError(self._failed[1])
            self._connecting += 1
        return self._connect(connect)

    def _connect(self, connect: Callable[[], Any]) -> Any:
        connection, failure = None, None
        try:
            connection = connect()
        except Exception as error:
            failure = (time.monotonic(), str(error))
            raise
        finally:
            with self._changed:
                self._connecting -= 1
                self._failed = failure
                if connection is not None:
                    self._lent.add(connection)
                self._changed.notify()
        return connection

    def _take_idle(self) -> Any:
        while self._idle:
            _, connection = self._idle.pop()
            if is_live(connection):
                return connection
            connection.close()
        return None

    def give(self, connection: Any) -> None:
        """Store an unused connection for the next thread.

        Closes one that cannot be used again.
        """
        now, surplus = time.monotonic(), []
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.close()
        with self._changed:
            self._lent.discard(connection)
            if not connection.closed:
                self._idle.append((now, connection))
            while self._idle and now - self._idle[0][0] > OLD:
                surplus.append(self._idle.pop(0)[1])
            self._changed.notify()
        for old in surplus:
            old.close()

    def close(self) -> None:
        """Close the idle connections."""
        with self._changed:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


def is_live(connection: Any) -> bool:
    """Return whether an idle connection can be used.

    A server that ends a session reports or closes it: then there is data to read although nothing was asked. Only in
    doubt, the server is queried.
    """
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    # Below psycopg, which would begin a transaction.
    return not poll.poll(0) or connection.pgconn.exec_(b"SELECT 1").status == ExecStatus.TUPLES_OK


class DatabaseWrapper(base.DatabaseWrapper):
    """One thread's connection, taken from the idle ones."""

    _idle: ClassVar[dict[tuple[str, str], IdleConnections]] = {}  # of all threads: alias and name of the database

    @property
    def _connections(self) -> IdleConnections:
        return self._idle.setdefault((self.alias, str(self.settings_dict["NAME"])), IdleConnections())

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a live connection; see Django."""
        connect, idle = super().get_new_connection, self._connections
        self.isolation_level = self.settings_dict["OPTIONS"].get("isolation_level", IsolationLevel.READ_COMMITTED)
        connection = idle.take(lambda: connect(conn_params))
        connection.toolcards_idle = idle
        return connection

    def close_if_health_check_failed(self) -> None:
        """Drop a connection that has ended.

        Django calls this before each statement, in transactions too.
        """
        if self.connection is not None and not self.in_atomic_block and not is_live(self.connection):
            self.close()

    def _close(self) -> None:
        if self.connection is not None:
            with self.wrap_database_errors:
                connection, self.connection = self.connection, None
                connection.toolcards_idle.give(connection)

    def close_pool(self) -> None:
        """Close the idle connections; Django calls this before it drops a database."""
        self._connections.close()
