"""The MCP server behind the HTTP gateway: requests to it, and its responses in pieces."""

from __future__ import annotations

import functools
import http.client
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from toolcards.client.common.http_heads import EVENTS, JSON, PLAIN, choose_heads, read_media_type
from toolcards.mcp.http.event_stream import LONGEST, EventReader
from toolcards.mcp.messages import LIST, Message, get_object, is_response, serialize
from toolcards.mcp.tool_list import ToolList

SESSION_ID = "mcp-session-id"
CONNECT = 30.0  # seconds to accept a connection
SILENCE = 3_600.0  # seconds without a byte after which a response counts as broken off
LIST_PAGES = 100
LIST_SECONDS = 10.0  # to list the tools; a call waits for it
FAILURES = (OSError, http.client.HTTPException)  # what a request may raise
_EVENT_ID = re.compile(rb"[\r\n]id:")


class BrokenResponse(ConnectionError):
    """The server's response broke off before its end."""


class UnusableResponse(ConnectionError):
    """The server's response cannot be passed on."""


class Upstream:
    """One MCP server. `headers` are sent with every request, in place of the client's."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._parts, self._own_headers = urlsplit(url), dict(headers)
        self.path = self._parts.path

    def request(
        self, method: str, body: bytes | None, headers: Mapping[str, str], seconds: float = SILENCE
    ) -> Response:
        """Send a request with the client's headers; return its response.

        It may pause for `seconds`.
        """
        host, port = self._parts.hostname or "", self._parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=CONNECT, context=_make_tls_context())
            if self._parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=CONNECT)
        )
        target = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        try:
            connection.request(method, target, body, self._choose_headers(headers, has_body=body is not None))
            if connection.sock is not None:
                connection.sock.settimeout(seconds)
            return Response(connection, connection.getresponse())
        except BaseException:
            connection.close()
            raise

    def list_tools(self, tools: ToolList, headers: Mapping[str, str], meta: Message, number: Any) -> None:
        """List the server's tools within LIST_SECONDS, like a client's request.

        It has the headers, `_meta` and id of a request, so that the server cannot tell it from the client's.
        """
        deadline = time.monotonic() + LIST_SECONDS
        own_headers = {name: value for name, value in headers.items() if not name.lower().startswith("mcp-param-")}
        own_headers = {k: v for k, v in own_headers.items() if k.lower() not in {"mcp-method", "mcp-name"}}
        params: Message = {"_meta": {key: value for key, value in meta.items() if key != "progressToken"}}
        for _ in range(LIST_PAGES):
            own_request = {"jsonrpc": "2.0", "id": number, "method": LIST, "params": params}
            result = self._exchange(own_request, own_headers | {"Mcp-Method": LIST}, deadline - time.monotonic())
            tools.add_own_page(result)
            if not result.get("nextCursor"):
                return
            params = params | {"cursor": result["nextCursor"]}

    def _exchange(self, own_request: Message, headers: Mapping[str, str], seconds: float) -> Message:
        """Return the result of a request of our own, {} if it does not answer within `seconds`."""
        end = time.monotonic() + seconds
        try:
            with closing(self.request("POST", serialize(own_request), headers, max(seconds, 0.001))) as response:
                response.deadline = end
                messages = response.read_messages() if response.status == 200 else iter(())
                for message in messages:
                    if is_response(message) and message["id"] == own_request["id"]:
                        return get_object(message, "result")
        except FAILURES:
            return {}
        return {}

    def _choose_headers(self, headers: Mapping[str, str], *, has_body: bool) -> dict[str, str]:
        own = {name.lower() for name in self._own_headers}
        passed_headers = {name: value for name, value in choose_heads(headers.items()) if name not in own}
        body_headers = {"Content-Type": JSON} if has_body else {}
        return passed_headers | self._own_headers | {"Accept-Encoding": "identity"} | body_headers


class Response:
    """A response of the server. Iterating yields its body in pieces; raises BrokenResponse if it has no end.

    `may_resume`: it is a stream with the ids of events, so that the client may get the rest by another request.
    `is_long`: no one may have read all its messages.
    """

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection, self._response = connection, response
        self.status = response.status
        self.content_type = _read_content_type(response)
        self.headers = choose_heads(response.getheaders())
        self.headers += [("Content-Type", self.content_type), ("X-Content-Type-Options", "nosniff")]
        self.has_events = self.content_type == EVENTS
        self.may_resume = self.is_long = False
        self.deadline: float | None = None
        self._remaining = 0 if response.chunked else response.length or 0

    def get_header(self, name: str) -> str:
        """Return a header, "" if it is missing."""
        return self._response.getheader(name) or ""

    def __iter__(self) -> Iterator[bytes]:
        end, length = b"\n", 0
        try:
            while piece := self._response.read1(1 << 16):
                length += len(piece)
                self._remaining -= len(piece)
                self.is_long = length > LONGEST
                if self.has_events and not self.may_resume:
                    self.may_resume = _EVENT_ID.search(end + piece) is not None
                    end = (end + piece)[-4:]
                yield piece
                if self.deadline is not None and time.monotonic() > self.deadline:
                    raise TimeoutError("timed out")
        except FAILURES as error:
            raise BrokenResponse(str(error)) from error
        if self._remaining > 0:  # `http.client` does not compare them
            raise BrokenResponse(f"{self._remaining} bytes are missing")

    def read_messages(self) -> Iterator[Any]:
        """Yield the messages of the body as they arrive."""
        reader = EventReader(self.content_type)
        for piece in self:
            yield from reader.feed(piece)
        yield from reader.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _read_content_type(response: http.client.HTTPResponse) -> str:
    """Return the type that the client gets: JSON and events, which the gateway reads, or plain text.

    Raises UnusableResponse for what the client could read differently.
    """
    if not (200 <= response.status < 300 or 400 <= response.status < 600):
        raise UnusableResponse(f"it answered with status {response.status}")
    if (response.getheader("Content-Encoding") or "identity").strip().lower() != "identity":
        raise UnusableResponse("its answer is encoded")
    kinds = response.headers.get_all("Content-Type", [])
    if len(kinds) > 1 or len(response.headers.get_all(SESSION_ID, [])) > 1 or response.headers.defects:
        raise UnusableResponse("its answer has headers that contradict each other")
    media_type = read_media_type(kinds[0]) if kinds else ""
    return media_type if media_type in {JSON, EVENTS} else PLAIN


@functools.cache
def _make_tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
