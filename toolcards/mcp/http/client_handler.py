"""A connection of a client: its requests, and responses that are whole or written in chunks."""

from __future__ import annotations

import contextlib
from http.server import BaseHTTPRequestHandler
from typing import Any

from toolcards.mcp.http.event_stream import format_event
from toolcards.mcp.messages import INVALID_REQUEST, Message, make_error, serialize

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
