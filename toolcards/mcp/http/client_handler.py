"""A connection of a client: its requests, and responses that are whole or written in chunks."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Iterable
from email.message import Message as Headers
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from toolcards.client.common.http_heads import JSON, choose_heads, is_clean, read_media_type
from toolcards.mcp.http.event_stream import format_event
from toolcards.mcp.http.upstream import Response
from toolcards.mcp.messages import (
    CALL,
    INVALID_REQUEST,
    Message,
    get_object,
    get_text,
    is_request,
    make_error,
    serialize,
)
from toolcards.mcp.session import HeldCall, Session

# The end of the response to a call: what is reported, and what the client gets, if it has no result.
NO_RESULT = "The MCP server ended its response without a result for this call. It may have run."
CONNECTION_LOSS = "The connection was lost before the result arrived. The call may have run."


def conclude(session: Session, call: HeldCall | None, response: Response, text: str = NO_RESULT) -> Message | None:
    """Report a call without a result at the end of its response.

    Return the error for the client; None if there was a result, or may be one: the client can resume the stream, or the
    response was too long to read.
    """
    if call is None or not session.is_open(call):
        return None
    if response.may_resume or response.is_long:
        session.lose(call, for_good=not response.may_resume)
        return None
    reason = f"The MCP server answered {response.status}." if response.status >= 400 else text
    session.abandon(call, reason)
    return make_error(call.request_id, -32603, reason)


# Heads of a client's request: those that pass, and those that refuse it.
_UNIQUE = frozenset({
    "authorization", "content-encoding", "content-length", "content-type", "host", "origin", "transfer-encoding",
})  # fmt: skip
_SEPARATORS = {"cookie": "; "}
_NOT_ALLOWED = (403, "This host or origin is not allowed.")


def join_heads(heads: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the heads for the server, joining values of one name."""
    values: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for name, value in choose_heads(heads):
        values.setdefault(names.setdefault(name.lower(), name), []).append(value)
    return {name: _SEPARATORS.get(name.lower(), ", ").join(each) for name, each in values.items()}


def find_fault(headers: Headers, hosts: set[str], *, has_body: bool) -> tuple[int, str] | None:
    """Return the status and text of a refusal, None for no fault.

    Refuses heads that two programs could read differently, and web pages that found this address (DNS rebinding).
    """
    names = [name.lower() for name in headers]
    for name in names:
        if names.count(name) > 1 and (name in _UNIQUE or name.startswith("mcp-")):
            return 400, f"The header {name} was sent twice."
    if headers.defects or not all(is_clean(name, value) for name, value in headers.items()):
        return 400, "A header cannot be read."
    if not _is_from_here(headers, hosts):
        return _NOT_ALLOWED
    if not has_body:
        sends_body = headers.get("Content-Length", "0").strip() != "0" or "transfer-encoding" in names
        return (400, "A request of this method has no body.") if sends_body else None
    if read_media_type(headers.get("Content-Type", "")) != JSON:
        return 415, f"The Content-Type must be {JSON}."
    if headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        return 415, "The body must not be encoded."
    return None


def _is_from_here(headers: Headers, hosts: set[str]) -> bool:
    """Return whether the request is for this gateway, and from no page of another origin."""
    host, origin = headers.get("Host", "").lower(), headers.get("Origin")
    try:
        host_name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    is_own_origin = origin is None or origin.lower() == f"http://{host}"
    return host_name in hosts and is_own_origin and headers.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}


def contradicts(headers: Headers, message: Any) -> bool:
    """Return whether `Mcp-Method` or `Mcp-Name` differ from the message."""
    if not is_request(message):
        return False
    params, name = get_object(message, "params"), headers.get("Mcp-Name")
    return headers.get("Mcp-Method", message["method"]).strip() != message["method"] or (
        name is not None and message["method"] == CALL and _decode(name.strip()) != get_text(params, "name")
    )


def _decode(value: str) -> str:
    """Return the text of a head that may be in Base64 (protocol 2026-07-28)."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return value


LONGEST_BODY = 16 << 20
BODILESS = frozenset({204, 205})


class ClientHandler(BaseHTTPRequestHandler):
    """Reads requests, and writes responses."""

    protocol_version = "HTTP/1.1"
    timeout = 120  # seconds for a request to arrive
    begun = ""  # the content type of the response that has begun
    is_bodiless = False  # its status allows no body

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the standard library
        """Write nothing: the dashboard shows the calls."""

    def read_body(self) -> bytes | None:
        """Return the body; None after a refusal."""
        self.begun = ""
        lengths = self.headers.get_all("Content-Length", [])
        length = lengths[0] if len(lengths) == 1 else ""
        is_number = length.isascii() and length.isdigit()  # `int` refuses "²" and thousands of digits
        is_short = is_number and len(length) < 19 and int(length) <= LONGEST_BODY
        if not is_short or self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            self.answer(413 if is_number else 411, make_error(None, INVALID_REQUEST, "Invalid body length."))
            return None
        return self.rfile.read(int(length))

    def answer(self, status: int, message: Message | None) -> None:
        """Send a whole response."""
        body = serialize(message) if message is not None else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_chunks(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Begin a response that is written in chunks."""
        self.is_bodiless = status in BODILESS
        self.begun = next((value for name, value in headers if name.lower() == "content-type"), "?")
        self.send_response_only(status)
        for name, value in headers if self.is_bodiless else [*headers, ("Transfer-Encoding", "chunked")]:
            self.send_header(name, value)
        self.end_headers()

    def write_chunk(self, data: bytes) -> None:
        """Write a part of the response."""
        if data and not self.is_bodiless:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()

    def end_chunks(self) -> None:
        """End the response."""
        self.wfile.write(b"" if self.is_bodiless else b"0\r\n\r\n")

    def break_off(self, error: Message) -> None:
        """Send the error of a broken response if that is possible."""
        with contextlib.suppress(OSError):
            if not self.begun:
                self.answer(502, error)
            elif self.begun.startswith("text/event-stream"):
                self.write_chunk(b"\n\n" + format_event(error))  # after what may be half an event
                self.end_chunks()
