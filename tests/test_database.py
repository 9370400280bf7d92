"""Errors that say that the database is away."""

from __future__ import annotations

import sqlite3

from django.db import IntegrityError, InterfaceError, InternalError, OperationalError
from django.db.transaction import TransactionManagementError

from tests.support.tables import loop_over
from toolcards.database import is_transient


def caused(error: Exception, by: Exception) -> Exception:
    error.__cause__ = by
    return error


@loop_over(
    ("error", "transient"),
    [
        (OperationalError("database is locked"), True),
        (OperationalError("disk I/O error"), True),
        (OperationalError("database or disk is full"), True),
        (OperationalError("attempt to write a readonly database"), True),
        (OperationalError("unable to open database file"), True),
        (InterfaceError("the connection is closed"), True),
        (caused(TransactionManagementError("broken"), OperationalError("database is locked")), True),
        (caused(InternalError("read-only"), type("ReadOnly", (Exception,), {"sqlstate": "25006"})()), True),
        (sqlite3.OperationalError("database is locked"), True),
        (sqlite3.InterfaceError("the connection is closed"), True),
        (sqlite3.OperationalError("no such table: toolcards_run"), False),
        (OperationalError("no such table: toolcards_run"), False),
        (InternalError("corrupt"), False),
        (IntegrityError("not unique"), False),
        (TransactionManagementError("broken"), False),
        (ValueError("locked"), False),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_of_a_database_that_is_away_are_known(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient
