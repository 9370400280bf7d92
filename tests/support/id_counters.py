"""The counters that give the rows of a table their ids."""

from __future__ import annotations

from django.db import connection


def reset_counters() -> None:
    """Reset the counters, which a rollback in PostgreSQL does not do."""
    if connection.vendor == "sqlite":
        _execute("DELETE FROM sqlite_sequence")
        return
    tables = ("agentkey", "policyversion", "killswitch", "breakglass", "vote")
    _execute(*(f"ALTER SEQUENCE toolcards_{table}_id_seq RESTART" for table in tables))


def _execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
