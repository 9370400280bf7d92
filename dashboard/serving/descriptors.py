"""Keep some of the process's file descriptors free, for the database and for files: connections get the others.

A server without a free descriptor can open neither its database nor a template, so it fails everybody instead of the
connections that are too many. The system hands out the lowest free number, so a high one shows how many are in use.
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

# Each thread that reads SQLite has three files open; PostgreSQL has a connection each. Of a low limit, half is kept.
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
    """Return the descriptor from which on too few are free; the limit can change while the server runs."""
    if sys.platform == "win32":
        return float("inf")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if limit == resource.RLIM_INFINITY else limit - min(KEPT_FREE, limit // 2)
