"""Idle connections that threads of this process share. A connection that has ended is never handed out.

The pool of psycopg tries to connect in the background, with pauses that grow to minutes, and lets callers wait in the
meantime. Here a caller connects itself, and gets an error at once if the server is unavailable.
"""

from __future__ import annotations

import select
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from django.db import OperationalError
from psycopg.pq import ExecStatus, TransactionStatus

MOST = 12  # connections of one process: several processes share the server's limit, often 100
WAIT = 10.0  # seconds to wait for one of them
OLD = 300.0  # seconds after which an idle connection is closed
PAUSE = 0.25  # seconds after a failed attempt in which others do not try: each may last until a timeout


class IdleConnections:
    """Connections to one database. `take` and `give` are called from any thread."""

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
