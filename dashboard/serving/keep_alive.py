"""How long uvicorn keeps a connection between two requests, and how it parts with one when the server stops.

Clients that reuse a connection in the moment in which it is closed report that as a failed request. So a connection is
kept longer than any of them keeps it, every answer says for how long, and the last answer says that it is the last.
"""

from __future__ import annotations

import select
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dashboard.serving.limits import KEEP_ALIVE
from toolcards.transports import shutdown

PARTING = 1.0  # seconds of a shutdown in which a connection without a request may still bring one
RECHECK_SECONDS = 0.05  # seconds in which a busy loop reads what has arrived, before it checks again


class KeepAliveProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which closes a connection between two requests only."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._last = False  # the next answer is the last one here: the server stops

    @property
    def answering(self) -> bool:
        """Whether a request waits for the end of its answer."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def busy(self) -> bool:
        """Whether a request is being read or answered."""
        return self.answering

    def on_headers_complete(self) -> None:
        """See httptools. The answer tells how long the connection is kept."""
        super().on_headers_complete()
        if not self.answering:
            return  # an upgrade
        if self._last:
            self.cycle.keep_alive = False
        elif self.cycle.keep_alive:
            self.cycle.default_headers = [*self.cycle.default_headers, KEEP_ALIVE]

    def start_idle_timer(self) -> None:
        """Wait for the next request, as long as a connection is kept."""
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
            self.timeout_keep_alive_task = self.loop.call_later(PARTING, self.timeout_keep_alive_handler)
