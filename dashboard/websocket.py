"""Takes whole text messages straight from the bytes of a WebSocket; everything else is for websockets to read.

uvicorn's own protocol runs every frame through a generator, part by part, which costs more than all that is then done
with a frame of an agent's. Nearly all are whole text messages. The others (fragments, binary, pings and pongs, closing)
are passed on, frame by frame; so is all that comes before the handshake is answered, after the connection began to
close, and from a frame on that breaks the rules: there websockets knows what to answer.
"""

from __future__ import annotations

from asyncio import BaseTransport

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import apply_mask
from websockets.protocol import OPEN

_TEXT = 0x81  # a frame's first byte if it is a whole text message
_KNOWN = frozenset({0x00, 0x80, 0x01, _TEXT, 0x02, 0x82, 0x88, 0x89, 0x8A})  # what it can be
_MASKED = 0x80  # in the second byte; the rest of it is the length, or how it is told
_HEAD = 6  # bytes of the shortest head, its mask included
_LONGER = {126: 2, 127: 8}  # bytes that tell the length where the second byte cannot


class Protocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, with a short way for the usual message."""

    def connection_made(self, transport: BaseTransport) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._asked = False  # the request of the handshake has come
        self._aside = False  # websockets reads by itself from here on
        self._rest = bytearray()  # of a frame that has not come whole

    def data_received(self, data: bytes | bytearray) -> None:
        """See asyncio.Protocol."""
        rest = self._rest
        if rest:
            rest += data
            data = rest
        self._aside = self._aside or (self._asked and self.conn.state is not OPEN)
        at = self._read(data) if self._asked and not self._aside else 0
        if self.transport.is_closing():  # what was read has ended the connection: no frame behind it counts
            rest.clear()
        elif self._aside or not self._asked:
            super().data_received(bytes(data[at:]))
            rest.clear()
        elif data is rest:
            del rest[:at]
        else:
            rest += data[at:]
        self._asked = True

    def _read(self, data: bytes | bytearray) -> int:
        """Read the whole frames in there; return where the first one begins that was not read."""
        conn, most = self.conn, self.config.ws_max_size
        at, end = 0, len(data)
        while end - at >= 2:
            length, body = data[at + 1] - _MASKED, at + _HEAD
            if length > 125:
                longer = _LONGER[length]
                body += longer
                length = int.from_bytes(data[at + 2 : at + 2 + longer], "big") if body <= end else 0
            if length < 0 or length > most or data[at] not in _KNOWN:
                self._aside = True
                break
            past = body + length
            if past > end:
                break
            if data[at] == _TEXT and conn.current_size is None:
                self.curr_msg_data_type = "text"
                self.frames = [apply_mask(data[body:past], data[body - 4 : body])]
                self.send_receive_event_to_app()
            else:
                super().data_received(bytes(data[at:past]))
            at = past
            if conn.state is not OPEN:
                self._aside = True
                break
        return at
