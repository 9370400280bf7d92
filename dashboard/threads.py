"""Closes the database connection of a page's thread when its request ends.

ASGI gives each request its own thread, which ends with it. CONN_MAX_AGE keeps connections of SQLite for threads that
stay; those of ended threads would stay open until the garbage collector runs, three descriptors each.
"""

from __future__ import annotations

from typing import Any

from django.core.signals import request_finished
from django.db import connection
from django.dispatch import receiver


@receiver(request_finished)
def close_connection(**kwargs: Any) -> None:
    """Close the connection, unless a transaction is open (in a test)."""
    if not connection.in_atomic_block:
        connection.close()
