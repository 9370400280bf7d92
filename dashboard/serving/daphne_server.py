"""Daphne with limits on heads, bodies, and the time until the first head is complete.

Daphne reads a body into a file before it calls the application. So a key cannot be checked before its body: only the
head is examined here. A request with neither key nor session may have a small body, any other one up to
`TOOLCARDS_MAX_BODY`; bodies for /api/v1/ingest with a key have no limit. Idle connections are kept as long as uvicorn
keeps them.
"""

from __future__ import annotations

import asyncio
import io
import struct
from collections.abc import Callable
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server  # installs Twisted's reactor
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from django.conf import settings
from twisted.internet import defer
from twisted.internet import reactor as twisted_reactor

from dashboard.serving.bodies import SMALL
from dashboard.serving.limits import IDLE, KEEP_ALIVE, SLACK, Refusal
from toolcards.transports import shutdown
from toolcards.transports.api.admission import RECEIPTS
from toolcards.transports.api.asgi_messages import DRAIN_BYTES, DRAIN_SECONDS
from toolcards.transports.routing import INGEST

reactor: Any = twisted_reactor  # its type is only known at run time
_KEEP_ALIVE = (KEEP_ALIVE[0], [KEEP_ALIVE[1]])


class DaphneRequest(WebRequest):
    """One request, limited while it arrives."""

    _size, _is_refused = 0, False

    def gotLength(self, length: int | None) -> None:
        """See Twisted: the head is complete."""
        self.channel.head_came = True
        self._most = self._allowance()
        super().gotLength(None if length is None else min(length, SMALL))
        if length and length > self._most:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        """See Twisted."""
        self._size += len(data)
        if not self._is_refused and self._size > self._most:
            self._refuse()
        elif self._is_refused and self._size > DRAIN_BYTES:
            self.channel.transport.abortConnection()
        if not self._is_refused:
            super().handleContentChunk(data)

    def process(self) -> Any:
        """See Daphne."""
        return None if self._is_refused else super().process()

    def handle_reply(self, message: Any) -> None:
        """See Daphne. The answer states how long the connection is kept."""
        if message.get("type") == "http.response.start" and self.channel is not None:
            if self.server.stopping:
                self.channel.persistent = False
                self.responseHeaders.setRawHeaders(b"connection", [b"close"])
            elif self.channel.persistent:
                self.responseHeaders.setRawHeaders(*_KEEP_ALIVE)
        super().handle_reply(message)

    def _allowance(self) -> float:
        path = self.channel._path.partition(b"?")[0].rstrip(b"/")
        if not self._claims_identity():
            return SMALL
        return float("inf") if path == INGEST.encode() else settings.TOOLCARDS.max_body

    def _claims_identity(self) -> bool:
        cookies = b"; ".join(self.requestHeaders.getRawHeaders(b"Cookie") or ())
        return self.requestHeaders.hasHeader(b"Authorization") or settings.SESSION_COOKIE_NAME.encode() in cookies

    def _refuse(self) -> None:
        self._is_refused, self._size, self.content = True, 0, io.BytesIO()
        if self.channel._path.startswith(b"/api/") and not self._claims_identity():
            refusal = Refusal(401, "unauthorized", "Send an agent key, or sign in.")
        else:
            refusal = Refusal(413, "too_large", f"The body must have at most {self._most} bytes.")
        transport = self.channel.transport
        transport.write(refusal.response)
        transport.loseWriteConnection()  # continue to read briefly, so that the sender sees the answer
        reactor.callLater(DRAIN_SECONDS, transport.abortConnection)


class DaphneSocket(WebSocketProtocol):
    """A socket that can be closed with every registered code, and reports what its peer has received."""

    def request_receipt(self, on_receipt: Callable[[], None]) -> None:
        """Send a ping; call `on_receipt` at its pong or a later one."""
        self._receipts: list[tuple[bytes, Callable[[], None]]] = getattr(self, "_receipts", [])
        self._receipt_count = getattr(self, "_receipt_count", 0) + 1
        payload = struct.pack("!Q", self._receipt_count)
        self._receipts.append((payload, on_receipt))
        self.sendPing(payload)

    def onPong(self, payload: bytes) -> None:
        """See Autobahn."""
        payloads = [earlier for earlier, _ in getattr(self, "_receipts", ())]
        if payload in payloads:
            past = payloads.index(payload) + 1
            receipts, self._receipts = self._receipts[:past], self._receipts[past:]
            for _, on_receipt in receipts:
                on_receipt()

    def serverClose(self, code: int | None = None) -> None:
        """See Daphne. Autobahn refuses 1011 and 1012 from applications."""
        if self.state == self.STATE_OPEN:
            self.sendCloseFrame(code=1000 if code is None else code, isReply=False)


class DaphneFactory(HTTPFactory):
    """Creates connections that are closed if their first head is late."""

    def buildProtocol(self, address: Any) -> Any:
        """See Twisted."""
        protocol = super().buildProtocol(address)
        protocol.requestFactory, protocol.timeOut = DaphneRequest, IDLE + SLACK
        reactor.callLater(settings.TOOLCARDS.head_seconds, _close_late, protocol)
        return protocol


def _close_late(protocol: Any) -> None:
    channel = protocol._channel
    if channel.transport is not None and not getattr(channel, "head_came", False):
        channel.transport.abortConnection()


class DaphneServer(Server):
    """Daphne's server with our factory; applications finish before it stops."""

    def __init__(self, *args: Any, close_seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stopping, self._close_seconds = False, close_seconds
        self._ports: list[Any] = []

    def create_application(self, protocol: Any, scope: Any) -> Any:
        """See Daphne. A socket's scope offers receipts."""
        if isinstance(protocol, DaphneSocket):
            scope.setdefault("extensions", {})[RECEIPTS] = protocol.request_receipt
        return super().create_application(protocol, scope)

    def listen_success(self, port: Any) -> None:
        """See Daphne."""
        self._ports.append(port)
        super().listen_success(port)

    def kill_all_applications(self) -> Any:
        """See Daphne; the applications are notified first, and get `close_seconds` seconds."""
        self.stopping = True
        for port in self._ports:
            port.stopListening()
        shutdown.begin()
        return defer.Deferred.fromFuture(asyncio.ensure_future(self._close_applications()))

    async def _close_applications(self) -> None:
        details = [detail.get("application_instance") for detail in self.connections.values()]
        running = {task for task in details if task is not None and not task.done()}
        if running:
            _, late = await asyncio.wait(running, timeout=self._close_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    @property
    def ws_factory(self) -> WebSocketFactory:
        """Return the factory of sockets."""
        return self._ws_factory

    @ws_factory.setter
    def ws_factory(self, factory: WebSocketFactory) -> None:
        factory.protocol = DaphneSocket
        self._ws_factory = factory

    @property
    def http_factory(self) -> DaphneFactory:
        """Return the factory of connections."""
        return self._factory

    @http_factory.setter
    def http_factory(self, _: HTTPFactory) -> None:
        self._factory = DaphneFactory(self)
