"""One POST to an upstream set by an admin, answered piece by piece: no redirects, no reuse, no retries."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from urllib.parse import urlsplit

import httptools

from toolcards.client.common.http_heads import choose_heads
from toolcards.core.calls import facts as f

CONNECT = 10.0  # seconds
INTERIM = frozenset({*range(100, 200)} - {101})  # statuses of answers that another one follows; 101 leaves HTTP
INTERIM_MOST = 20
# The client's credentials are for Toolcards. The agent's credentials have a separate header.
CREDENTIALS = frozenset({"authorization", "cookie"})
AGENT_AUTHORIZATION = "x-upstream-authorization"
SILENCE = 600.0  # seconds without a byte after which an answer counts as broken off


class UpstreamUnreachable(Exception):
    """Raised without an answer from the upstream; gives the reason without the address."""


@functools.cache
def _tls() -> ssl.SSLContext:
    """Return the TLS context, made on first use: reading certificates takes 30 ms of CPU."""
    return ssl.create_default_context()


def build_headers(heads: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers for the agent, from those of the client."""
    passed_headers = {name.lower(): value for name, value in choose_heads(heads)}
    passed_headers = {name: passed_headers[name] for name in passed_headers.keys() - CREDENTIALS}
    agent_authorization = passed_headers.pop(AGENT_AUTHORIZATION, "")
    authorization = {"authorization": agent_authorization} if agent_authorization else {}
    own_headers = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
    return passed_headers | authorization | own_headers


class Exchange:
    """The answer: `status` and `headers` (names in lower case) once `post` has returned, then its `pieces`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.status, self.headers = 0, dict[str, str]()
        self.is_complete = False
        self._reader, self._writer = reader, writer
        self._parser = httptools.HttpResponseParser(self)
        self._has_head = False
        self._fault = ""
        self._interim = 0
        self._bodies: list[bytes] = []

    @property
    def kind(self) -> str:
        """The media type, with its parameters."""
        return self.headers.get("content-type", "")

    @property
    def coding(self) -> str:
        """The encoding of the body."""
        return self.headers.get("content-encoding", "identity")

    def find_unreadable_end(self) -> f.RunEnded | None:
        """Return the end of the run if this is no event stream."""
        if self.status != 200:
            return f.RunEnded(outcome="error", reason=f"The agent answered with status {self.status}.")
        if self.kind.partition(";")[0].strip().lower() != "text/event-stream":
            fault = f"is no event stream ({self.kind[:80] or 'without a type'})"
        elif self.coding.lower() != "identity":
            fault = f"is encoded ({self.coding[:80]})"
        else:
            return None
        return f.RunEnded(outcome="truncated", reason=f"The agent's answer {fault}, so it was not recorded.")

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes; raises UpstreamUnreachable if it breaks off."""
        while True:
            bodies, self._bodies = self._bodies, []
            for body in bodies:
                yield body
            if self.is_complete:
                return
            await self._more()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def begin(self) -> None:
        """Wait for the headers."""
        while not self._has_head:
            await self._more()

    async def _more(self) -> None:
        try:
            async with asyncio.timeout(SILENCE):  # `wait_for` of Python 3.11 can swallow a cancellation
                data = await self._reader.read(1 << 16)
            if not data and not self._ended_by_closing():
                raise UpstreamUnreachable("it closed the connection before its answer was complete")
            if data:
                self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # after a status that is a fault, or behind the answer
            self._fault = self._fault or ("" if self.is_complete else "it left HTTP")
        except (OSError, TimeoutError, httptools.HttpParserError) as error:
            if not self.is_complete and not self._fault:  # what is wrong behind the answer is no part of it
                raise UpstreamUnreachable(f"its answer was interrupted: {type(error).__name__}") from error
        if self._fault:
            raise UpstreamUnreachable(self._fault)

    def _ended_by_closing(self) -> bool:
        has_length = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "")
        self.is_complete = self._has_head and not has_length
        return self.is_complete

    # ------------------------------------------------------------ httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools. Trailers and a second answer are ignored."""
        if not self._has_head:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """See httptools."""
        if self._has_head:
            return
        self.status = self._parser.get_status_code()
        if self.status in INTERIM and self._interim < INTERIM_MOST:
            self._interim += 1
        elif 200 <= self.status < 600:
            self._has_head = True
        else:
            self._fault = f"it answered with status {self.status:03d}"

    def on_body(self, body: bytes) -> None:
        """See httptools. Data after the complete answer is dropped."""
        if not self.is_complete:
            self._bodies.append(body)

    def on_message_complete(self) -> None:
        """See httptools. The final answer follows an interim one."""
        if self._has_head:
            self.is_complete = True
        else:
            self.headers.clear()


async def post(url: str, body: bytes, headers: Mapping[str, str]) -> Exchange:
    """Send the body; return the answer once its headers have arrived.

    Raises UpstreamUnreachable.
    """
    parts = urlsplit(url)
    secure, host = parts.scheme == "https", parts.hostname or ""
    port = parts.port or (443 if secure else 80)
    try:
        async with asyncio.timeout(CONNECT):
            reader, writer = await asyncio.open_connection(host, port, ssl=_tls() if secure else None)
    except (OSError, TimeoutError) as error:
        raise UpstreamUnreachable(f"the connection failed: {type(error).__name__}") from error
    exchange = Exchange(reader, writer)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"POST {target} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1", "replace") + body)
        with contextlib.suppress(ConnectionError):  # the answer may say why
            await writer.drain()
        await exchange.begin()
    except BaseException:
        exchange.close()
        raise
    return exchange
