"""Responses of streamable HTTP as messages: one JSON value, or server-sent events with one each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from toolcards.mcp.messages import Message, make_error, serialize

LONGEST = 16 << 20  # bytes of one message; longer ones pass unread
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class EventReader:
    """Reads messages from a body that arrives in pieces; skips unreadable parts."""

    def __init__(self, content_type: str) -> None:
        self._has_events = content_type.startswith("text/event-stream")
        self._is_json = content_type.startswith("application/json")
        self._partial, self._data = bytearray(), bytearray()

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Yield the messages that this piece completes."""
        if not self._has_events and not self._is_json:
            return
        is_complete = self._partial.endswith(b"\r") or b"\n" in piece or b"\r" in piece
        self._partial += piece
        if self._has_events and is_complete:
            *lines, last_line = _LINE_END.split(self._partial)
            self._partial = bytearray(last_line)
            for line in lines:
                yield from self._read_line(line)
        if len(self._partial) + len(self._data) > LONGEST:
            self._partial, self._data, self._has_events, self._is_json = bytearray(), bytearray(), False, False

    def close(self) -> Iterator[Any]:
        """Yield the message that the end of the body completes."""
        if self._is_json:
            yield from _load(self._partial)

    def _read_line(self, line: bytes) -> Iterator[Any]:
        if line.startswith(b"data:"):
            self._data += line[5:].removeprefix(b" ") + b"\n"
        elif not line and self._data:
            data, self._data = bytes(self._data), bytearray()
            yield from _load(data)


class StreamSplitter:
    """Splits a stream of server-sent events into whole events, each with its bytes and its message."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, Any]]:
        """Yield the events that this piece completes.

        The message of an unreadable event is None.
        """
        start, position = 0, max(0, len(self._partial) - 3)  # what came before holds no end
        self._partial += piece
        while (end := _EVENT_END.search(self._partial, position)) is not None:
            event, start = bytes(self._partial[start : end.end()]), end.end()
            position = start
            yield event, _read_event(event)
        del self._partial[:start]
        if len(self._partial) > LONGEST:
            event, self._partial = bytes(self._partial), bytearray()
            yield event, None

    def close(self) -> Iterator[tuple[bytes, Any]]:
        """Yield the remaining part at the end of the stream."""
        if self._partial:
            yield bytes(self._partial), None


def _read_event(event: bytes) -> Any:
    lines = [line for line in _LINE_END.split(event) if line.startswith(b"data:")]
    return next(_load(b"\n".join(line[5:].removeprefix(b" ") for line in lines)), None) if lines else None


def format_event(message: Message | list[Any]) -> bytes:
    """Return the message as one server-sent event."""
    return b"event: message\ndata: " + serialize(message) + b"\n\n"


def is_message(body: bytes) -> bool:
    """Return whether the JSON body can be a message."""
    return isinstance(next(_load(body), None), (dict, list))


def convert_to_event(body: bytes, status: int, number: Any) -> bytes:
    """Return a JSON response as an event; anything else becomes an error."""
    message = next(_load(body), None)
    if not isinstance(message, (dict, list)):
        message = make_error(number, -32603, f"The MCP server answered {status}.")
    return format_event(message)


def _load(data: bytes | bytearray) -> Iterator[Any]:
    try:
        yield json.loads(data)
    except (ValueError, RecursionError):
        return
