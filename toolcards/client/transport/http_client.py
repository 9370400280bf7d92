"""HTTP/1.1 requests to the gate: one complete JSON object of bounded size and time, or Unreachable.

Only a 200 with `application/json`, a declared length (or chunks
with their end), no content encoding and at most LONGEST_ANSWER bytes counts. Redirects and the proxies of the
environment are not used.

Idle connections are kept and reused. A request is sent a second time in one case only: its connection had been used
before and was closed without a single byte of the answer. The server treats both as one request: `decide` by call id
and attempt, a claim by permit and digest.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import re
import socket
import ssl
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from ..common.json_text import parse_strict_object

__all__ = ["LONGEST_ANSWER", "UNSENDABLE_KEY", "HttpClient", "Unreachable"]

LONGEST_ANSWER = 2 << 20  # bytes of one answer, its head included
IDLE = 30.0  # seconds that an unused connection is kept
MAX_IDLE = 8  # connections
UNSENDABLE_KEY = "the agent key contains a line break or a character that no key has; copy the key again"
_JSON = re.compile(r"application/json\s*(;\s*charset\s*=\s*\"?utf-8\"?\s*)?", re.IGNORECASE)
_SENDABLE = re.compile(r"[ -~]*")
_CLOSED_ERRORS = (ConnectionError, http.client.RemoteDisconnected, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class Unreachable(Exception):
    """The server did not give a clear answer; for a gate that means deny. `status` is 0 without one.

    `may_have_arrived`: the server may have the request, and may act on it.
    """

    def __init__(self, message: str, status: int = 0, *, may_have_arrived: bool = False) -> None:
        super().__init__(message)
        self.status, self.may_have_arrived = status, may_have_arrived


class HttpClient:
    """The connections of one client to one server. Safe for threads, and for processes that fork."""

    def __init__(self, url: str, headers: dict[str, str], *, keep_alive: bool) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is not an address like http://127.0.0.1:8000")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path, self._keep_alive = parts.path, keep_alive
        self._headers = {"Accept": "application/json", "Connection": "keep-alive" if keep_alive else "close", **headers}
        self._idle = _IdleConnections()

    def request(self, method: str, path: str, body: bytes | None, seconds: float) -> dict[str, Any]:
        """Return the JSON object of a 200 within `seconds`; raises Unreachable otherwise."""
        request = _Request(method, self._path + path, body, self._headers, time.monotonic() + seconds)
        for name, value in self._headers.items():  # `http.client` would put the value, a key, into its error
            if not _SENDABLE.fullmatch(value):
                raise Unreachable(UNSENDABLE_KEY if name == "Authorization" else f"the header {name} cannot be sent")
        try:
            connection = self._idle.take()
            if connection is None:
                return self._exchange(self._open(request.remaining), request)
            try:
                return self._exchange(connection, request)
            except _CLOSED_ERRORS:
                if request.received:
                    raise
            return self._exchange(self._open(request.remaining), request)
        except (OSError, http.client.HTTPException, UnicodeError, ValueError) as error:
            text = str(error) or type(error).__name__
            raise Unreachable(text, may_have_arrived=request.is_sent) from error

    def _exchange(self, connection: http.client.HTTPConnection, request: _Request) -> dict[str, Any]:
        """Send the request and read the answer; keep the connection if both sides allow it."""
        streams: list[_Stream] = []

        def make_response(sock: socket.socket, method: str) -> http.client.HTTPResponse:
            streams.append(_Stream(sock, request))
            return http.client.HTTPResponse(streams[0], method=method)  # type: ignore[arg-type]

        is_reusable = False
        try:
            assert connection.sock is not None
            connection.sock.settimeout(request.remaining)
            request.is_sent = True
            connection.response_class = make_response  # type: ignore[assignment]
            connection.request(request.method, request.path, request.body, request.headers)
            answer = connection.getresponse()
            payload = _read(answer)
            is_reusable = self._keep_alive and not answer.will_close and not streams[0].read_rest()
            return payload
        finally:
            connection.response_class = http.client.HTTPResponse
            for stream in streams:
                stream.release()
            if is_reusable:
                self._idle.give(connection)
            else:
                connection.close()

    def _open(self, seconds: float) -> http.client.HTTPConnection:
        link: http.client.HTTPConnection
        if self._secure:
            context = ssl.create_default_context()
            link = http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=context)
        else:
            link = http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        link.connect()
        return link


@dataclass
class _Request:
    """One request, the deadline of its answer, whether it was sent, and how many bytes of the answer were received."""

    method: str
    path: str
    body: bytes | None
    common: dict[str, str]
    deadline: float
    is_sent: bool = False
    received: int = 0
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.headers = self.common | ({"Content-Type": "application/json"} if self.body is not None else {})

    @property
    def remaining(self) -> float:
        """Return the remaining seconds; raises TimeoutError."""
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        return remaining


class _Stream(io.RawIOBase):
    """The bytes of one answer for `http.client`: limited in size, none after the deadline."""

    def __init__(self, sock: socket.socket, request: _Request) -> None:
        super().__init__()
        self._sock, self._request, self._over = sock, request, False
        self._file = sock.makefile("rb", buffering=0)  # keeps the socket open until `release`
        self._reader = _UnclosedReader(self)

    def makefile(self, mode: str) -> _UnclosedReader:
        """Return the buffered bytes, as a socket does."""
        return self._reader

    def readable(self) -> Literal[True]:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See io.RawIOBase; raises TimeoutError, or ValueError for too long an answer."""
        if self._over:
            return 0
        self._sock.settimeout(self._request.remaining)
        count = self._file.readinto(buffer) or 0
        self._request.received += count
        if self._request.received > LONGEST_ANSWER:
            raise ValueError("the answer is too long")
        return count

    def read_rest(self) -> bytes:
        """Return stray bytes after the answer."""
        self._over = True
        return self._reader.read()

    def release(self) -> None:
        """Release the socket."""
        self._file.close()


class _UnclosedReader(io.BufferedReader):
    """Stays open when `http.client` closes it, so that bytes after the answer can be read."""

    def close(self) -> None:
        """Do nothing: the connection owns the socket."""


class _IdleConnections:
    """Connections kept for the next request, the newest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: list[tuple[http.client.HTTPConnection, float]] = []
        _pools.add(self)

    def __del__(self) -> None:
        for link, _ in self._links:
            link.close()

    def take(self) -> http.client.HTTPConnection | None:
        """Return a connection that is open and silent, if there is one."""
        while True:
            with self._lock:
                if not self._links:
                    return None
                link, kept_at = self._links.pop()
            if time.monotonic() - kept_at < IDLE and _is_silent(link):
                return link
            link.close()

    def give(self, link: http.client.HTTPConnection) -> None:
        """Keep the connection for the next request."""
        with self._lock:
            self._links.append((link, time.monotonic()))
            old = self._links.pop(0)[0] if len(self._links) > MAX_IDLE else None
        if old is not None:
            old.close()

    def forget(self) -> None:
        """Close the connections inherited from the parent process.

        Two processes must not share one.
        """
        self._lock = threading.Lock()
        links, self._links = self._links, []
        for link, _ in links:
            with contextlib.suppress(OSError):
                link.close()  # this process's copy only


_pools: weakref.WeakSet[_IdleConnections] = weakref.WeakSet()


def _forget_connections() -> None:
    for pool in list(_pools):
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)


def _is_silent(link: http.client.HTTPConnection) -> bool:
    """Return whether nothing was received since the last answer: neither its end nor stray bytes."""
    sock = link.sock
    if sock is None or (isinstance(sock, ssl.SSLSocket) and sock.pending()):
        return False
    try:
        sock.setblocking(False)
        socket.socket.recv(sock, 1, socket.MSG_PEEK)  # TLS sockets have no peek of their own
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        return False
    return False


def _read(answer: http.client.HTTPResponse) -> dict[str, Any]:
    """Return the answer's object; raises Unreachable with the server's message for other statuses."""
    if answer.status != 200:
        raise Unreachable(_format_error(answer), answer.status, may_have_arrived=answer.status >= 500)
    _check(answer)
    return parse_strict_object(answer.read())


def _check(answer: http.client.HTTPResponse) -> None:
    """Raise ValueError for headers that do not determine whether the body is complete."""
    lengths = answer.headers.get_all("Content-Length") or []
    codings = answer.headers.get_all("Transfer-Encoding") or []
    has_length = len(lengths) == 1 and re.fullmatch(r"[0-9]{1,9}", lengths[0]) is not None and not codings
    is_chunked = [coding.lower() for coding in codings] == ["chunked"] and not lengths
    if not has_length and not is_chunked:
        raise ValueError("the answer does not state its length")
    if has_length and int(lengths[0]) > LONGEST_ANSWER:
        raise ValueError("the answer is too long")
    if answer.headers.defects:
        raise ValueError("the headers of the answer are not valid")
    if (answer.headers.get("Content-Encoding") or "identity").lower() != "identity":
        raise ValueError("the answer is compressed, which was not requested")
    kinds = answer.headers.get_all("Content-Type") or []
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        raise ValueError("the answer is not JSON")


def _format_error(answer: http.client.HTTPResponse) -> str:
    """Return the message of an error answer, or its status."""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        _check(answer)
        error = parse_strict_object(answer.read()).get("error")
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            return str(error["message"])[:2000]
    return f"the server answered {answer.status}"
