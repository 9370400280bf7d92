"""Reserves file descriptors for the database and files, and refuses connections beyond that.

Without a free descriptor, a server can open neither its database nor a template, so every request fails. The system
assigns the lowest free number, so a high number shows how many are in use.
"""

from __future__ import annotations

import errno
import socket
import sys

from dashboard.serving.limits import Refusal
from toolcards import outages

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

# Each thread that reads SQLite has three open files, or one connection to PostgreSQL. At most half is reserved.
KEPT_FREE = 96


NO_ROOM = Refusal(503, "unavailable", "The server has no room for another connection right now. Try again.")


def find_refusal(newest: socket.socket | None) -> Refusal | None:
    """Return the refusal of the newest connection, None if there is room.

    Reports the outage and its end.
    """
    if newest is None or newest.fileno() < _compute_limit():
        outages.report_success(outages.CONNECTING)
        return None
    outages.report_failure(outages.CONNECTING, OSError(errno.EMFILE, "too many open connections"))
    return NO_ROOM


def _compute_limit() -> float:
    """Return the first descriptor that is too high.

    The limit of the process can change while the server runs.
    """
    if sys.platform == "win32":
        return float("inf")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if limit == resource.RLIM_INFINITY else limit - min(KEPT_FREE, limit // 2)
