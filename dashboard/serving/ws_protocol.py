"""Reads whole text messages straight from the bytes of a WebSocket, and leaves all else to websockets.

uvicorn's own protocol runs every frame through a generator, part by part, which costs more than all later work on a
frame of an agent. Nearly all frames are whole text messages. Others (fragments, binary, pings and pongs, closing) are
passed on frame by frame, and so is everything before the handshake is answered, after the closing handshake began, and
from the first invalid frame on, because websockets knows how to answer these. An application that asks for it
(`TEXT_BUNDLES`) gets all texts of one read as one message.
"""

from __future__ import annotations

import struct
from asyncio import BaseTransport
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame, apply_mask  # type: ignore[attr-defined]
from websockets.http11 import Request
from websockets.protocol import OPEN

from dashboard.serving.limits import Peer
from toolcards.transports import shutdown
from toolcards.transports.api.admission import LINE, RECEIPTS, TEXT_BUNDLES

_TEXT = 0x81  # a frame's first byte if it is a whole text message
_OPCODES = frozenset({0x00, 0x80, 0x01, _TEXT, 0x02, 0x82, 0x88, 0x89, 0x8A})  # bits of the first byte
_MASK_BIT = 0x80  # in the second byte, whose other bits are the length or its encoding
_HEAD = 6  # bytes of the shortest head, with its mask
_UNKNOWN = 1 << 16  # bytes of an unfinished message that are kept for an unknown sender
_GOODBYE = 2.0  # seconds for the peer to answer our close
_PARTING = 3.0  # seconds of a shutdown in which the application closes by itself
_LONGER = {126: 2, 127: 8}  # bytes of the length if it does not fit the second byte


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol with a fast path for text messages and a small buffer for unknown peers."""

    def __init__(self, *args: Any, peer: Peer | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._peer = peer or Peer()
        self._is_paused = False  # reading is paused until the peer is known
        self._sends_bundles = False  # the application takes several texts in one message
        self._receipts: dict[bytes, Callable[[], None] | None] = {}  # by the payload of their pings, in order
        self._receipt_count = 0
        self.close_timeout = _GOODBYE

    def handle_connect(self, event: Request) -> None:
        """See uvicorn. The scope carries the peer, and offers bundles and receipts."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope[LINE] = (self._peer,)  # type: ignore[literal-required]
            self.scope["extensions"][TEXT_BUNDLES] = self._send_bundles  # type: ignore[assignment]
            self.scope["extensions"][RECEIPTS] = self._request_receipt  # type: ignore[assignment]

    def _send_bundles(self) -> None:
        self._sends_bundles = True

    def _request_receipt(self, on_receipt: Callable[[], None]) -> None:
        """Send a ping; call `on_receipt` at its pong."""
        if self.close_sent or self.transport.is_closing():
            return
        self._receipt_count += 1
        payload = struct.pack("!Q", self._receipt_count)
        self._receipts[payload] = on_receipt
        self.conn.send_ping(payload)
        self.transport.write(b"".join(self.conn.data_to_send()))

    def send_keepalive_ping(self) -> None:
        """See uvicorn. Its pong also answers earlier pings (RFC 6455)."""
        super().send_keepalive_ping()
        if self._receipts and self.pending_ping_payload is not None:
            self._receipts[self.pending_ping_payload] = None

    def handle_pong(self, event: Frame) -> None:
        """See uvicorn; a pong also answers the pings before its own."""
        payload = bytes(event.data)
        if payload in self._receipts:
            for earlier in list(self._receipts):
                on_receipt = self._receipts.pop(earlier)
                if on_receipt is not None:
                    on_receipt()
                if earlier == payload:
                    break
        super().handle_pong(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._peer.close()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """See uvicorn. The application acknowledges accepted frames and closes by itself."""
        shutdown.begin()
        if self.close_sent or not self.handshake_complete:
            super().shutdown()
        else:
            self.loop.call_later(_PARTING, self._part)

    def _part(self) -> None:
        if not self.disconnected and not self.transport.is_closing():
            super().shutdown()

    def handle_ping(self) -> None:
        """See uvicorn; a ping after our close gets no answer."""
        answer = self.conn.data_to_send()
        if not self.close_sent:
            self.transport.write(b"".join(answer))

    def send_receive_event_to_app(self) -> None:
        """See uvicorn; a text that is not UTF-8 logs no traceback."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            self.frames = [b"".join(self.frames)]
            try:
                self.frames[0].decode()
            except UnicodeDecodeError:
                self.frames = []
                self.logger.info("a socket sent text that is not UTF-8 and was closed")
                self.conn.send_close(CloseCode.INVALID_DATA)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    async def receive(self) -> Any:
        """See uvicorn. Resume reading once the peer is known."""
        if self._is_paused and self._peer.is_known:
            self._is_paused = False
            if not self.read_paused:  # otherwise uvicorn resumes after the application has taken the messages
                self.transport.resume_reading()
        return await super().receive()

    def connection_made(self, transport: BaseTransport) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._has_request = False  # the handshake's request has arrived
        self._is_delegated = False  # websockets reads by itself from here on
        self._unread = bytearray()  # of an incomplete frame
        self._is_paused = False  # reading is paused until the peer is known

    def data_received(self, data: bytes | bytearray) -> None:
        """See asyncio.Protocol."""
        pending = self._unread
        if pending:
            pending += data
            data = pending
        self._is_delegated = self._is_delegated or (self._has_request and self.conn.state is not OPEN)
        position = self._read(data) if self._has_request and not self._is_delegated else 0
        if self.transport.is_closing():  # the connection has ended: later frames do not count
            pending.clear()
        elif self._is_delegated or not self._has_request:
            super().data_received(bytes(data[position:]))
            pending.clear()
        elif data is pending:
            del pending[:position]
        else:
            pending += data[position:]
        self._has_request = True
        if len(pending) > _UNKNOWN and not self._peer.is_known:
            self._is_paused = True
            self.transport.pause_reading()

    def _read(self, data: bytes | bytearray) -> int:
        """Read the complete frames; return the position of the first unread one."""
        conn, most = self.conn, self.config.ws_max_size
        texts: list[str] = []  # read, but not passed on
        position, end = 0, len(data)
        while end - position >= 2:
            length, body = data[position + 1] - _MASK_BIT, position + _HEAD
            if length > 125:
                longer = _LONGER[length]
                body += longer
                length = int.from_bytes(data[position + 2 : position + 2 + longer], "big") if body <= end else 0
            if length < 0 or length > most or data[position] not in _OPCODES:
                self._is_delegated = True
                break
            past = body + length
            if past > end:
                break
            if data[position] == _TEXT and conn.current_size is None:
                payload = apply_mask(data[body:past], data[body - 4 : body])
                try:
                    texts.append(payload.decode())
                except UnicodeDecodeError:
                    self._pass_on(texts)
                    self.curr_msg_data_type, self.frames = "text", [payload]
                    self.send_receive_event_to_app()
            else:
                self._pass_on(texts)
                super().data_received(bytes(data[position:past]))
            position = past
            if conn.state is not OPEN:
                self._is_delegated = True
                break
        self._pass_on(texts)
        return position

    def _pass_on(self, texts: list[str]) -> None:
        """Queue these texts for the application, and empty the list."""
        if texts and not self.close_sent:
            if self._sends_bundles:
                bundle: Any = {"type": "websocket.receive", "texts": texts.copy()}
                self.queue.put_nowait(bundle)
            else:
                for text in texts:
                    self.queue.put_nowait({"type": "websocket.receive", "text": text})
            if not self.read_paused:
                self.read_paused = True
                self.transport.pause_reading()
        texts.clear()
