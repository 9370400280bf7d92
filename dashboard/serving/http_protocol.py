"""uvicorn's HTTP protocol with limits of size and time on everything before an answer.

A head must be small and complete soon. A body may not pause for long, unless the application has marked its sender as
known and streaming (`api.admission`). After an answer, remaining data is read briefly, so that the sender sees the
answer; then the connection ends. The number of unknown connections per address is limited: beyond it, the oldest that
is idle is closed in favor of the newest.

Longer than most modules: it is one class, whose parser, clock and end share the state of one connection.
"""

from __future__ import annotations

import asyncio
import functools
import math
from enum import Enum
from itertools import chain
from typing import Any

import httptools

from dashboard.networks import is_proxy
from dashboard.serving import limits
from dashboard.serving.keep_alive import RECHECK_SECONDS, KeepAliveProtocol
from dashboard.serving.limits import HEAD_TOO_LARGE, INVALID, TOO_MANY, TOO_SLOW, Limits, Peer, Refusal, read_limits
from toolcards.transports.api.admission import LINE

HEADERS = 200  # header lines of a request
PIPELINED = 16  # requests that wait for an earlier answer
MAX_EMPTY_SIZE = 1 << 18  # consecutive bytes without content: chunk extensions, trailers
# After an early answer: seconds without a byte, seconds in total, and bytes. A body that is slightly too long must be
# read whole, or its sender sees a broken connection instead of the answer.
LINGER, LONGEST_LINGER, LEFTOVER = 2.0, 10.0, 16 << 20
CLOSE_SECONDS = 10.0  # seconds until a closed connection is aborted if its peer reads nothing


class ReadPhase(Enum):
    """The part of a request that is being read."""

    BETWEEN = "nothing: the request is whole, and the next has not begun"
    HEAD = "a head, or the wait for the first one"
    BODY = "a body"


class HttpProtocol(KeepAliveProtocol):
    """One connection."""

    def __init__(self, *args: Any, limits: Limits | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits, self._peer = limits or read_limits(), Peer()
        self._phase = ReadPhase.HEAD
        self._phase_start = self._last_byte_time = self.loop.time()  # of the phase; of the last bytes
        self._stalled, self._unread_size = math.inf, 0  # since when the peer has read nothing, and of how many bytes
        self._size = self._empty_size = 0  # bytes of this phase, and bytes since the last content
        self._answered_early = False  # answered before the body was complete
        self._over = self._overdue = False  # received data is dropped; the deadline had passed at the last check
        self._refusal: Refusal | None = None  # raised inside the parser, which raises another exception
        self._timer: asyncio.TimerHandle | None = None
        self._no_room: Refusal | None = None  # the answer to all but requests for the server's health
        self._running: Any = None  # the cycle that is being answered; `cycle` is that of the last request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        newest = transport.get_extra_info("socket")
        self._no_room = limits.find_refusal(newest)
        if self._no_room is not None and limits.has_room_for_health(newest):
            self._limits = self._limits.shorten_for_health()
            return self._wake(self._limits.head_seconds)
        if self._no_room is not None:
            return self._refuse(self._no_room)
        address = self.client[0] if self.client else ""
        if not is_proxy(address, self._limits.proxies):
            peer = self._limits.unknown_peers.enter(address, self._close_for_newer)
            if peer is None:
                return self._refuse(TOO_MANY)
            self._peer = peer
        protocol_class: Any = self.ws_protocol_class
        self.ws_protocol_class = functools.partial(protocol_class, peer=self._peer)  # type: ignore[assignment]
        return self._wake(self._limits.head_seconds)

    def _refuse(self, refusal: Refusal) -> None:
        self.transport.write(refusal.response)
        self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._peer.close()
        self._sleep()
        self._disconnect(self._running)  # uvicorn does this to the last one only
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._stalled, self._unread_size = self.loop.time(), self.transport.get_write_buffer_size()
        super().pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._stalled = math.inf
        super().resume_writing()

    # ------------------------------------------------------------ reading

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._phase is ReadPhase.BETWEEN and not self._over:
            self._enter(ReadPhase.HEAD)
        self._last_byte_time = self.loop.time()
        self._size += len(data)
        self._empty_size += len(data)
        if (self._over or self._answered_early) and self._size > LEFTOVER:
            self.transport.abort()
        if self._over:
            return
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._phase is ReadPhase.HEAD and self._size > self._limits.max_head:
            self._end(HEAD_TOO_LARGE)
        elif self._phase is ReadPhase.BODY and self._empty_size > MAX_EMPTY_SIZE:
            self._end(INVALID)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                self._unsupported_upgrade_warning()
        except httptools.HttpParserError:
            self._end(self._refusal or INVALID)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection and its peer over to the WebSocket protocol."""
        self._sleep()
        self._over, self._phase = True, ReadPhase.BETWEEN
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        """See httptools."""
        if self._phase is not ReadPhase.HEAD:
            self._enter(ReadPhase.HEAD)
        super().on_message_begin()
        self._peer.next_request()
        self.scope[LINE] = (self._peer,)  # type: ignore[literal-required]

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools. Trailers are dropped, because the head has been read."""
        if self._phase is ReadPhase.HEAD:
            super().on_header(name, value)
            if len(self.headers) > HEADERS:
                self._raise(HEAD_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """See httptools."""
        if len(self.url) + sum(map(len, chain.from_iterable(self.headers))) > self._limits.max_head:
            self._raise(HEAD_TOO_LARGE)
        if len(self.pipeline) >= PIPELINED:
            self._raise(INVALID)
        if self._no_room is not None and not limits.asks_for_health(self.url):
            self._raise(self._no_room)
        self._enter(ReadPhase.BODY)
        super().on_headers_complete()
        if self._no_room is not None:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._empty_size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See httptools. After an early answer, a complete body keeps the connection."""
        was_answered, self._phase, self._answered_early = self._answered_early, ReadPhase.BETWEEN, False
        super().on_message_complete()
        if was_answered and not self.transport.is_closing():
            self.start_idle_timer()

    def on_response_complete(self) -> None:
        """See uvicorn. An early answer closes the connection soon."""
        super().on_response_complete()
        if self._phase is ReadPhase.BODY and not self.pipeline:
            self._answered_early, self._size, self._phase_start = True, 0, self.loop.time()
            self._wake(LINGER)

    @property
    def busy(self) -> bool:
        """See KeepAliveProtocol."""
        return self.answering or (self._phase is ReadPhase.HEAD and self._size > 0)

    def _enter(self, phase: ReadPhase) -> None:
        self._phase, self._phase_start, self._answered_early = phase, self.loop.time(), False
        self._size = self._empty_size = 0
        if phase is ReadPhase.HEAD and self._timer is None:  # otherwise `_look` runs soon enough
            self._wake(self._limits.head_seconds)

    def _raise(self, refusal: Refusal) -> None:
        self._refusal = refusal
        raise refusal

    # ------------------------------------------------------------ time

    def _wake(self, seconds: float) -> None:
        self._sleep()
        self._timer = self.loop.call_later(seconds, self._look)

    def _sleep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """End the connection if its time is over; otherwise check again later.

        A second check follows the first one past the deadline, because a busy loop first reads data that has arrived.
        """
        self._timer = None
        if self._stalled < math.inf and (size := self.transport.get_write_buffer_size()) < self._unread_size:
            self._stalled, self._unread_size = self.loop.time(), size  # it reads, however slowly
        remaining = self._deadline() - self.loop.time()
        overdue, self._overdue = self._overdue, remaining <= 0
        if remaining <= 0 and not overdue:
            self._wake(RECHECK_SECONDS)
            return
        if self._over or self._answered_early and remaining <= 0:
            self._close()
        elif remaining <= 0:
            self._late()
        else:
            self._wake(max(0.05, min(remaining, self._limits.head_seconds)))

    def _deadline(self) -> float:
        """Return the deadline of the peer, on the loop's clock."""
        limits, is_known = self._limits, self._peer.is_known
        if self.transport.is_closing():
            return self._last_byte_time + CLOSE_SECONDS
        stall_deadline = self._stalled + limits.body_seconds
        if self._phase is ReadPhase.HEAD:
            return min(stall_deadline, self._phase_start + limits.head_seconds)
        if self._phase is ReadPhase.BETWEEN:
            return stall_deadline
        if self._answered_early:
            return min(max(self._phase_start, self._last_byte_time) + LINGER, self._phase_start + LONGEST_LINGER)
        if self.flow.read_paused:  # the server has paused reading
            self._last_byte_time = self.loop.time()
        rests = limits.stream_seconds if self._peer.streams else limits.body_seconds
        request_deadline = math.inf if is_known else self._phase_start + 2 * limits.body_seconds
        return min(stall_deadline, request_deadline, self._last_byte_time + rests)

    def _late(self) -> None:
        if self.transport.is_closing() or self._stalled < math.inf:
            self.transport.abort()
        elif self._phase is ReadPhase.HEAD and not self._size:
            self._close()  # it has sent nothing
        else:
            self._end(TOO_SLOW)

    # ------------------------------------------------------------ the end

    def _end(self, refusal: Refusal) -> None:
        """Answer, read on briefly so that the peer sees the answer, and close.

        During another answer, only close. Closing with unread bytes resets a connection and loses its answer.
        """
        running, self._over, self._size = self._running, True, 0
        answering = bool(self.pipeline) or bool(running and running.response_started and not running.response_complete)
        for cycle in (running, self.cycle):
            self._disconnect(cycle)
        if answering or self.transport.is_closing():
            self._close()
            return
        self.transport.write(refusal.response)
        self.transport.write_eof()
        self.flow.resume_reading()
        self._wake(LINGER)

    @staticmethod
    def _disconnect(cycle: Any) -> None:
        """Let the application of an incomplete answer know that no one reads it."""
        if cycle and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """See uvicorn."""
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _close_for_newer(self) -> bool:
        """Close for a newer connection, unless the server is working: see UnknownPeers.enter."""
        if self.transport.get_protocol() is not self or (self.answering and self._phase is not ReadPhase.BODY):
            return False
        if not self._over and self._phase is not ReadPhase.BETWEEN:  # no request to answer between two requests
            self._end(TOO_MANY)
        self._close()
        return True

    def _close(self) -> None:
        """Close once the written data is sent, or after a while."""
        self._over = True
        self._sleep()
        self.transport.close()
        self.loop.call_later(CLOSE_SECONDS, self.transport.abort)
