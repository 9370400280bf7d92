"""The limits of a server process by its settings and its descriptors, and the refusals beyond them.

The limits of bodies are in bodies.py.
"""

from __future__ import annotations

import errno
import functools
import json
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from django.conf import settings

from dashboard.networks import to_network
from toolcards import outages

# Clients that reuse a connection while it is being closed report a failed request. So it is kept
# longer than any client keeps it, and slightly longer than announced. Seconds.
IDLE, SLACK = 75, 5
KEEP_ALIVE = (b"keep-alive", b"timeout=%d" % IDLE)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in seconds and bytes; see the settings of the same names."""

    head_seconds: float
    body_seconds: float
    stream_seconds: float
    max_head: int
    proxies: tuple[str, ...]
    unknown_peers: UnknownPeers

    def shorten_for_health(self) -> Limits:
        """Return them for a connection that takes a reserved descriptor."""
        return replace(self, head_seconds=min(self.head_seconds, HEALTH_SECONDS))


@functools.cache
def read_limits() -> Limits:
    """Return the limits of this process. Django must be set up."""
    env = settings.TOOLCARDS
    unknown_peers = UnknownPeers(env.max_unauthenticated)
    return Limits(env.head_seconds, env.body_seconds, env.stream_seconds, env.max_head, env.proxy, unknown_peers)


class Refusal(Exception):
    """A request that is answered before it reaches the application."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    @property
    def response(self) -> bytes:
        """Return the complete response, in the form of the API's errors."""
        body = json.dumps({"error": {"code": self.code, "message": self.message}}).encode()
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", "content-type: application/json",
            f"content-length: {len(body)}", "cache-control: no-store, private", "x-content-type-options: nosniff",
            "connection: close", *([f"retry-after: {RETRY_AFTER}"] if self.status in (429, 503) else []),
        ]  # fmt: skip
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body


INVALID = Refusal(400, "bad_request", "Invalid HTTP request.")
TOO_SLOW = Refusal(408, "too_slow", "The request did not arrive in time.")
TOO_MANY = Refusal(429, "slow_down", "Too many connections from this address are not authenticated yet.")
HEAD_TOO_LARGE = Refusal(431, "head_too_large", "The path, cookies and other headers of this request are too long.")

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

# Without a free descriptor, a server can open neither its database nor a template, so every request fails. The system
# assigns the lowest free number, so a high number shows how many are in use. Each thread that reads SQLite has three
# open files, or one connection to PostgreSQL. At most half is reserved.
KEPT_FREE = 96
# The first of the reserved descriptors are for connections that ask how the server is: monitoring has to reach it then.
FOR_HEALTH = 16
HEALTH_PATHS = frozenset({b"/healthz", b"/readyz", b"/metrics"})
HEALTH_SECONDS = 2.0  # for the head of such a request
NO_ROOM = Refusal(503, "unavailable", "The server has no room for another connection right now. Try again.")


def has_room_for_health(newest: socket.socket) -> bool:
    """Return whether a connection without room may ask for the server's health."""
    return newest.fileno() < _compute_limit() + FOR_HEALTH


def asks_for_health(url: bytes) -> bool:
    """Return whether the request asks how the server is."""
    return url.partition(b"?")[0] in HEALTH_PATHS


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


# Counts for each address the connections and requests whose key or session is unchecked.
RETRY_AFTER = 5  # seconds


class UnknownPeers:
    """The unknown peers of each address, with a limit on their number."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._places: dict[str, dict[Peer, None]] = {}  # oldest first
        self._lock = threading.Lock()

    def enter(self, address: str, close_for_newer: Callable[[], bool] = lambda: False) -> Peer | None:
        """Return the new peer, None if its address has too many.

        `close_for_newer`: end this connection in favor of a newer one, if it keeps us waiting; return whether it does.
        """
        place = to_network(address)
        with self._lock:
            is_full = len(self._places.get(place, ())) >= self.most
        if is_full:
            self._make_room(place)
        peer = Peer(partial(self._leave, place), close_for_newer, is_counted=True)
        with self._lock:
            inside = self._places.setdefault(place, {})
            if len(inside) >= self.most:
                return None
            inside[peer] = None
        return peer

    def _make_room(self, place: str) -> None:
        with self._lock:
            inside = list(self._places.get(place, ()))
        for peer in inside:
            if peer.close_for_newer():
                peer.close()
                return

    def _leave(self, place: str, peer: Peer) -> None:
        with self._lock:
            inside = self._places.get(place, {})
            inside.pop(peer, None)
            if not inside:
                self._places.pop(place, None)

    def __len__(self) -> int:
        return sum(len(inside) for inside in self._places.values())


class Peer:
    """One connection or request. `known`: the current key or session is valid; `streams`: it may pause.

    `counted`: its address is its own, since a proxy sends for many. `close_for_newer`: see UnknownPeers.enter.
    """

    def __init__(
        self,
        leave: Callable[[Peer], None] = lambda _: None,
        close_for_newer: Callable[[], bool] = lambda: False,
        *,
        is_counted: bool = False,
    ) -> None:
        self._leave: Callable[[Peer], None] | None = leave
        self.close_for_newer = close_for_newer
        self._lock, self.is_counted = threading.Lock(), is_counted
        self.is_known = self.streams = False

    def admit(self, *, streams: bool = False) -> None:
        """Stop counting the peer, which has proven its identity."""
        self.is_known, self.streams = True, streams
        self.close()

    def next_request(self) -> None:
        """Forget the identity; a proxy's connection carries requests of many peers."""
        self.is_known = self.streams = False

    def close(self) -> None:
        """Stop counting the peer, which is known or gone."""
        with self._lock:
            leave, self._leave = self._leave, None
        if leave is not None:
            leave(self)
