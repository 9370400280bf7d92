"""Answers with status 200 that are written at once: head and body in one system call, the head joined beforehand.

uvicorn checks and joins each header of each answer, and writes head and body separately, which costs more than most
answers of the API take to compute. `toolcards.transports.api.asgi_messages.send_json` uses this extension of the scope.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from toolcards.transports.api.admission import WHOLE_ANSWER


def offer(cycle: Any) -> None:
    """Add the extension to the scope of a request.

    Its task has not run yet.
    """
    cycle.scope.setdefault("extensions", {})[WHOLE_ANSWER] = partial(_write, cycle)


def _write(cycle: Any, fixed_headers: bytes, body: bytes) -> bool:
    """Write the answer; return False if uvicorn has to, because something about the request is not ordinary.

    `fixed_headers` are lines without the length of the body.
    """
    if cycle.response_started or cycle.disconnected or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
        return False
    cycle.response_started = cycle.response_complete = True
    end = b"\r\n\r\n" if cycle.keep_alive else b"\r\nconnection: close\r\n\r\n"
    default_lines = _join_lines(tuple(cycle.default_headers))
    head = b"HTTP/1.1 200 OK\r\n%b%bcontent-length: %d%b" % (default_lines, fixed_headers, len(body), end)
    cycle.transport.write(head + body)
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


@lru_cache(maxsize=16)
def _join_lines(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Return the lines of the headers, of which the date changes once a second."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])
