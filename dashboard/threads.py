"""Closes the database connection of a thread when its request ends, unless the thread stays.

CONN_MAX_AGE keeps connections of SQLite; those of ended threads would stay open until the garbage collector runs, three
descriptors each. Threads of `serving/page_handler.py` stay, and to open a connection takes longer than most of what a
page reads. Connections to PostgreSQL go back to those that all threads share.
"""

from __future__ import annotations

import threading
from typing import Any

from django.core.signals import request_finished
from django.db import connection
from django.dispatch import receiver

_thread = threading.local()


def keep_connection() -> None:
    """Keep this thread's connection between requests.

    The code that ends the thread closes it there, by `connections.close_all`.
    """
    _thread.keeps_connection = True


@receiver(request_finished)
def close_connection(**kwargs: Any) -> None:
    """Close the connection if it is not kept.

    A transaction is open in some tests: it stays.
    """
    is_kept = connection.vendor == "sqlite" and getattr(_thread, "keeps_connection", False)
    if not (is_kept or connection.in_atomic_block):
        connection.close()
