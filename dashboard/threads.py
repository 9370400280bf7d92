"""Close the database connection of a page's thread: ASGI gives each request a thread of its own, which ends with it.

CONN_MAX_AGE keeps SQLite's connections for threads that stay. Those of threads that are gone were open until the
garbage collector came by, three descriptors each.
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
