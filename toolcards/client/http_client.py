"""HTTP/1.1 for questions to the gate: one whole JSON object, in bounded size and time, or Unreachable.

Standard library; `http.client` reads the protocol. Only a 200 with `application/json`, a declared length (or chunks
with their end), no content encoding and at most LONGEST_ANSWER bytes counts. Redirects are never followed, proxies of
the environment are not used.

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

from .common.json_text import strict_object

__all__ = ["LONGEST_ANSWER", "HttpClient", "Unreachable"]

LONGEST_ANSWER = 2 << 20  # bytes of one answer, its head included
IDLE = 30.0  # seconds that an unused connection is kept
MOST_IDLE = 8  # connections
_JSON = re.compile(r"application/json\s*(;\s*charset\s*=\s*\"?utf-8\"?\s*)?", re.IGNORECASE)
_CLOSED = (ConnectionError, http.client.RemoteDisconnected, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class Unreachable(Exception):
    """The server did not give a clear answer; for a gate that means deny. `status` is 0 where there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class HttpClient:
    """The connections of one client to one server. Safe for threads, and for processes that fork."""

    def __init__(self, url: str, headers: dict[str, str], *, keep_alive: bool) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is no address like http://127.0.0.1:8000")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path, self._keep_alive = parts.path, keep_alive
        self._headers = {"Accept": "application/json", "Connection": "keep-alive" if keep_alive else "close", **headers}
        self._idle = _Idle()

    def request(self, method: str, path: str, body: bytes | None, seconds: float) -> dict[str, Any]:
        """Return the JSON object of a 200, all of it within `seconds`; raises Unreachable for everything else."""
        request = _Request(method, self._path + path, body, self._headers, time.monotonic() + seconds)
        try:
            connection = self._idle.take()
            if connection is None:
                return self._sent(self._connected(request.left), request)
            try:
                return self._sent(connection, request)
            except _CLOSED:
                if request.received:
                    raise
            return self._sent(self._connected(request.left), request)
        except (OSError, http.client.HTTPException, UnicodeError, ValueError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error

    def _sent(self, connection: http.client.HTTPConnection, request: _Request) -> dict[str, Any]:
        """Send the request and read the answer; the connection is kept if both ends are done with the exchange."""
        streams: list[_Stream] = []

        def received(sock: socket.socket, method: str) -> http.client.HTTPResponse:
            streams.append(_Stream(sock, request))
            return http.client.HTTPResponse(streams[0], method=method)  # type: ignore[arg-type]

        again = False
        try:
            assert connection.sock is not None
            connection.sock.settimeout(request.left)
            connection.response_class = received  # type: ignore[assignment]
            connection.request(request.method, request.path, request.body, request.headers)
            answer = connection.getresponse()
            said = _read(answer)
            again = self._keep_alive and not answer.will_close and not streams[0].rest()
            return said
        finally:
            connection.response_class = http.client.HTTPResponse
            for stream in streams:
                stream.release()
            if again:
                self._idle.give(connection)
            else:
                connection.close()

    def _connected(self, seconds: float) -> http.client.HTTPConnection:
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
    """One request, the moment by which its answer must be whole, and how many bytes of the answer came."""

    method: str
    path: str
    body: bytes | None
    common: dict[str, str]
    deadline: float
    received: int = 0
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.headers = self.common | ({"Content-Type": "application/json"} if self.body is not None else {})

    @property
    def left(self) -> float:
        """Return the seconds that are left; raises TimeoutError."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


class _Stream(io.RawIOBase):
    """The bytes of one answer as `http.client` wants them: no more than allowed, none after the deadline."""

    def __init__(self, sock: socket.socket, request: _Request) -> None:
        super().__init__()
        self._sock, self._request, self._over = sock, request, False
        self._file = sock.makefile("rb", buffering=0)  # keeps the socket open until `release`
        self._reader = _Reader(self)

    def makefile(self, mode: str) -> _Reader:
        """Return the buffered bytes, as a socket does."""
        return self._reader

    def readable(self) -> Literal[True]:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See io.RawIOBase; raises TimeoutError, or ValueError for too long an answer."""
        if self._over:
            return 0
        self._sock.settimeout(self._request.left)
        count = self._file.readinto(buffer) or 0
        self._request.received += count
        if self._request.received > LONGEST_ANSWER:
            raise ValueError("the answer is too long")
        return count

    def rest(self) -> bytes:
        """Return what came behind the answer; it belongs to no request of ours."""
        self._over = True
        return self._reader.read()

    def release(self) -> None:
        """Let go of the socket."""
        self._file.close()


class _Reader(io.BufferedReader):
    """Stays open when `http.client` closes it, so that what came behind the answer can be seen."""

    def close(self) -> None:
        """Do nothing: the connection owns the socket."""


class _Idle:
    """Connections that wait for the next request, the newest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: list[tuple[http.client.HTTPConnection, float]] = []
        _pools.add(self)

    def __del__(self) -> None:
        for link, _ in self._links:
            link.close()

    def take(self) -> http.client.HTTPConnection | None:
        """Return a connection that is still open and silent, if there is one."""
        while True:
            with self._lock:
                if not self._links:
                    return None
                link, since = self._links.pop()
            if time.monotonic() - since < IDLE and _silent(link):
                return link
            link.close()

    def give(self, link: http.client.HTTPConnection) -> None:
        """Keep the connection for the next request."""
        with self._lock:
            self._links.append((link, time.monotonic()))
            old = self._links.pop(0)[0] if len(self._links) > MOST_IDLE else None
        if old is not None:
            old.close()

    def forget(self) -> None:
        """Leave the parent's connections to the parent: two processes on one socket read each other's answers."""
        self._lock = threading.Lock()
        links, self._links = self._links, []
        for link, _ in links:
            with contextlib.suppress(OSError):
                link.close()  # this process's copy only


_pools: weakref.WeakSet[_Idle] = weakref.WeakSet()


def _in_child() -> None:
    for pool in list(_pools):
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _silent(link: http.client.HTTPConnection) -> bool:
    """Return whether nothing came since the last answer: neither the connection's end nor unasked bytes."""
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
    """Return the answer's object; raises Unreachable with the server's own words where the status is not 200."""
    if answer.status != 200:
        raise Unreachable(_words(answer), answer.status)
    _check(answer)
    return strict_object(answer.read())


def _check(answer: http.client.HTTPResponse) -> None:
    """Raise ValueError for a head after which nobody can know whether the body is whole."""
    lengths = answer.headers.get_all("Content-Length") or []
    codings = answer.headers.get_all("Transfer-Encoding") or []
    counted = len(lengths) == 1 and re.fullmatch(r"[0-9]{1,9}", lengths[0]) is not None and not codings
    chunked = [coding.lower() for coding in codings] == ["chunked"] and not lengths
    if not counted and not chunked:
        raise ValueError("the answer does not say how long it is")
    if counted and int(lengths[0]) > LONGEST_ANSWER:
        raise ValueError("the answer is too long")
    if answer.headers.defects:
        raise ValueError("the answer's head is broken")
    if (answer.headers.get("Content-Encoding") or "identity").lower() != "identity":
        raise ValueError("the answer is compressed, though nobody asked for that")
    kinds = answer.headers.get_all("Content-Type") or []
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        raise ValueError("the answer is not JSON")


def _words(answer: http.client.HTTPResponse) -> str:
    """Return what an error answer says, or its status."""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        _check(answer)
        error = strict_object(answer.read()).get("error")
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            return str(error["message"])[:2000]
    return f"the server answered {answer.status}"
