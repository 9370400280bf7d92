"""A small WebSocket client: RFC 6455 over asyncio streams, text messages only, no extensions."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import re
import ssl
import struct
from collections.abc import Mapping
from urllib.parse import urlsplit

__all__ = ["ConnectionClosed", "Socket", "connect", "make_masked_frame"]

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_CONTROL = {_CLOSE, _PING, _PONG}
LONGEST_HEADER = 16 << 10
LONGEST_MESSAGE = 2 << 20  # bytes
MAX_PARTS = 1_000  # frames of one message


class ConnectionClosed(ConnectionError):
    """The connection is closed. `code` is the close code, 1006 without one, 400 and above for an HTTP refusal."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(f"closed: {code} {reason}".rstrip())
        self.code, self.reason = code, reason


async def connect(url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 10) -> Socket:  # noqa: ASYNC109
    """Open a socket to a ws, wss, http or https URL.

    Raises ConnectionClosed or OSError, and TimeoutError after `timeout` seconds.
    """
    parts = urlsplit(url)
    secure = parts.scheme in {"wss", "https"}
    if parts.scheme not in {"ws", "http", "wss", "https"} or not parts.hostname:
        raise ValueError(f"{url!r} is not a WebSocket address")
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(
            parts.hostname,
            parts.port or (443 if secure else 80),
            ssl=ssl.create_default_context() if secure else None,
            limit=LONGEST_HEADER,
        )
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            host = parts.netloc.rpartition("@")[2]
            await _handshake(reader, writer, path=path, host=host, headers=headers or {})
        except BaseException:
            writer.close()
            raise
    return Socket(reader, writer)


async def _handshake(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, path: str, host: str, headers: Mapping[str, str]
) -> None:
    key = base64.b64encode(os.urandom(16)).decode()
    request_headers = {
        "Host": host,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
        **headers,
    }
    if any(sign in text for pair in (*request_headers.items(), (path, "")) for text in pair for sign in "\r\n"):
        raise ValueError("a header or path must not contain a line break")
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in request_headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ConnectionClosed(1006, "no answer to the handshake") from error
    status = head[0].split(" ")
    answer = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    if len(status) < 2 or status[1] != "101":
        code = int(status[1]) if len(status) > 1 and re.fullmatch("[0-9]{3}", status[1]) else 1006
        raise ConnectionClosed(code, "the server refused the socket")
    expected_accept = base64.b64encode(hashlib.sha1(f"{key}{_GUID}".encode()).digest()).decode()  # noqa: S324 - the RFC's
    is_upgraded = answer.get("upgrade", "").lower() == "websocket" and "upgrade" in answer.get("connection", "").lower()
    if not is_upgraded or answer.get("sec-websocket-accept") != expected_accept or "sec-websocket-extensions" in answer:
        raise ConnectionClosed(1002, "this is not a WebSocket server")


class Socket:
    """One open connection. `send` may be called by several tasks, `recv` by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._close_error: ConnectionClosed | None = None
        self._has_sent_close = False
        self.last_received_at = asyncio.get_running_loop().time()  # any frame

    async def send(self, text: str) -> None:
        """Send one text message; waits while the server does not read.

        Raises ConnectionClosed.
        """
        await self._write(_TEXT, text.encode())

    async def ping(self) -> None:
        """Send a ping; `last_received_at` changes when its answer arrives."""
        await self._write(_PING, b"")

    async def recv(self) -> str:
        """Return the next text message; raises ConnectionClosed when there are no more."""
        parts: list[bytes] = []
        size = 0
        while True:
            final, opcode, payload = await self._frame()
            if opcode in _CONTROL:
                await self._control(opcode, payload)
                continue
            if opcode == _BINARY:
                raise await self._fail(1003, "only text messages are supported")
            if (opcode == _CONTINUATION) != bool(parts):
                raise await self._fail(1002, "unexpected start or continuation of a message")
            size += len(payload)
            if size > LONGEST_MESSAGE or len(parts) >= MAX_PARTS:
                raise await self._fail(1009, "too long")
            parts.append(payload)
            if final:
                return await self._text(b"".join(parts))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection, waiting up to two seconds for the peer."""
        with contextlib.suppress(OSError, TimeoutError):
            await self._send_close(code, reason)
            async with asyncio.timeout(2):
                while self._close_error is None:
                    await self.recv()
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._close_error = self._close_error or ConnectionClosed(1006, "aborted")
        self._writer.close()

    # ------------------------------------------------------------ frames

    async def _frame(self) -> tuple[bool, int, bytes]:
        if self._close_error is not None:
            raise self._close_error
        try:
            first, second = await self._reader.readexactly(2)
            opcode, length = first & 0x0F, second & 0x7F
            if first & 0x70 or second & 0x80 or opcode not in {_CONTINUATION, _TEXT, _BINARY, *_CONTROL}:
                raise await self._fail(1002, "not a valid frame from a server")
            if opcode in _CONTROL and (length > 125 or not first & 0x80):
                raise await self._fail(1002, "a control frame must be short and unfragmented")
            if length == 126:
                (length,) = struct.unpack("!H", await self._reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
            if length > LONGEST_MESSAGE:
                raise await self._fail(1009, "too long")
            payload = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError) as error:
            if isinstance(error, ConnectionClosed):
                raise
            self._close_error = self._close_error or ConnectionClosed(1006, "the connection was lost")
            raise self._close_error from error
        self.last_received_at = asyncio.get_running_loop().time()
        return bool(first & 0x80), opcode, payload

    async def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == _PING:
            await self._write(_PONG, payload)
        elif opcode == _CLOSE:
            if len(payload) == 1:
                raise await self._fail(1002, "an incomplete close code")
            code = struct.unpack("!H", payload[:2])[0] if payload else 1005
            with contextlib.suppress(OSError):
                await self._send_close(code if code != 1005 else 1000, "")
            self._close_error = ConnectionClosed(code, payload[2:].decode("utf-8", "replace"))
            self._writer.close()
            raise self._close_error

    async def _text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise await self._fail(1007, "not UTF-8") from None

    async def _fail(self, code: int, reason: str) -> ConnectionClosed:
        with contextlib.suppress(OSError):
            await self._send_close(code, reason)
        self._close_error = ConnectionClosed(code, reason)
        self._writer.close()
        return self._close_error

    async def _send_close(self, code: int, reason: str) -> None:
        if not self._has_sent_close:
            await self._write(_CLOSE, struct.pack("!H", code) + reason.encode()[:123])
            self._has_sent_close = True

    async def _write(self, opcode: int, payload: bytes) -> None:
        if self._close_error is not None or self._has_sent_close:
            raise self._close_error or ConnectionClosed(1000, "closed by the client")
        try:
            self._writer.write(make_masked_frame(opcode, payload))
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            self._close_error = self._close_error or ConnectionClosed(1006, "the connection was lost")
            raise self._close_error from error


def make_masked_frame(opcode: int, payload: bytes, mask: bytes | None = None) -> bytes:
    """Return one masked frame as a client sends it."""
    mask = mask or os.urandom(4)
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    # One exclusive-or over two big numbers instead of a loop over bytes.
    pad = (mask * (size // 4 + 1))[:size]
    body = (int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")).to_bytes(size, "big")
    return head + mask + body
