"""Connections to a real server, byte by byte, for what HTTP libraries do not send."""

from __future__ import annotations

import contextlib
import json
import re
import socket as sockets
from typing import Any
from urllib.parse import urlsplit

from tests.support.server import KEY, PATIENCE, Server

HEAD = b"Host: 127.0.0.1\r\n"
WITH_KEY = HEAD + f"Authorization: Bearer {KEY}\r\n".encode()
UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
DECIDE, LOGIN, INGEST = b"/api/v1/calls/decide", b"/login/", b"/api/v1/ingest?protocol=native&run="


class Wire:
    """A connection, byte by byte."""

    def __init__(
        self, server: Server, first_bytes: bytes = b"", source: str = "127.0.0.1", small: bool = False
    ) -> None:
        self.socket = sockets.socket()
        if small:  # a buffer for received data
            self.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        self.socket.settimeout(PATIENCE)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", urlsplit(server.base).port or 0))
        self.send(first_bytes)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send as much as the other side still reads."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def rest(self) -> bytes:
        """Return all that comes until the other side closes; fails if it never does."""
        response = b""
        with contextlib.suppress(ConnectionError):
            while piece := self.socket.recv(1 << 16):
                response += piece
        return response

    def answer(self) -> tuple[int, Any]:
        """Return status and JSON (or text) of the next response; 0 where the other side just closes."""
        response = b""
        with contextlib.suppress(ConnectionError):
            while not (match := re.search(rb"(?s)^(.*?\r\n)\r\n(.*)$", response)) or len(match[2]) < length(match[1]):
                piece = self.socket.recv(1 << 16)
                if not piece:
                    break
                response += piece
        head, _, body = response.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]) if head else 0, json.loads(body) if b"json" in head else body.decode()


def length(head: bytes) -> int:
    match = re.search(rb"(?i)\r\ncontent-length: (\d+)\r\n", head)
    return int(match[1]) if match else 0


def post(path: bytes, head: bytes = HEAD, *more: bytes, method: bytes = b"POST") -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\n" + head + b"".join(line + b"\r\n" for line in more) + b"\r\n"


def lives(server: Server) -> bool:
    return server.request("GET", "/healthz")[0] == 200 and server.request("GET", "/api/v1/runs")[0] == 200
