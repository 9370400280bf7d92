"""The backend: a thread whose connection has ended gets another one, outside of transactions.

Django keeps a broken connection for as long as its thread does not end a request; threads of this server that follow
runs or write the journal never do. CONN_MAX_AGE decides when a connection returns to the idle ones.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import IsolationLevel

from toolcards.postgresql.idle import IdleConnections, is_live


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
