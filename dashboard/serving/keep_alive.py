"""Connections of uvicorn: how answers are written, how long idle ones are kept, and how they end.

Clients that reuse a connection while it is being closed report a failed request. So a connection is kept longer than
any client keeps it, every answer states for how long, and the last answer is marked as the last.

An answer with status 200 is written at once, head and body in one system call, the head joined beforehand: uvicorn
checks and joins each header of each answer, which costs more than most answers of the API take to compute.
`toolcards.transports.api.asgi_messages.send_json` uses this extension of the scope.
"""

from __future__ import annotations

import select
from functools import lru_cache, partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dashboard.serving.limits import KEEP_ALIVE
from toolcards.transports import shutdown
from toolcards.transports.api.admission import WHOLE_ANSWER

LAST_REQUEST_SECONDS = 1.0  # seconds of a shutdown in which an idle connection may still send a request
RECHECK_SECONDS = 0.05  # seconds in which a busy loop reads arrived data before it checks again


class KeepAliveProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which closes connections only between two requests."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._last = False  # the server stops: the next answer is the last

    @property
    def answering(self) -> bool:
        """Return whether a request waits for the end of its answer."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def busy(self) -> bool:
        """Return whether a request is being read or answered."""
        return self.answering

    def on_headers_complete(self) -> None:
        """See httptools. The answer states how long the connection is kept."""
        super().on_headers_complete()
        if not self.answering:
            return  # an upgrade
        if self._last:
            self.cycle.keep_alive = False
        elif self.cycle.keep_alive:
            self.cycle.default_headers = [*self.cycle.default_headers, KEEP_ALIVE]
        _offer_whole_answer(self.cycle)

    def start_idle_timer(self) -> None:
        """Wait for the next request until the connection expires."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """See uvicorn. Close the connection unless unread data of a request waits."""
        self.timeout_keep_alive_task = None
        if self.busy or self.transport.is_closing():
            return
        if self._unread():
            self.timeout_keep_alive_task = self.loop.call_later(RECHECK_SECONDS, self.timeout_keep_alive_handler)
        else:
            self.transport.close()

    def _unread(self) -> bool:
        if not hasattr(select, "poll"):  # Windows
            return False
        watch = select.poll()
        watch.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(watch.poll(0))

    def shutdown(self) -> None:
        """See uvicorn. Open requests are still answered, with `Connection: close`."""
        shutdown.begin()
        self._last = True
        if self.answering:
            self.cycle.keep_alive = False
            self.cycle.default_headers = self.server_state.default_headers
        else:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(LAST_REQUEST_SECONDS, self.timeout_keep_alive_handler)


def _offer_whole_answer(cycle: Any) -> None:
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
