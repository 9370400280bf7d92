"""Idle connections: how long they are kept."""

from __future__ import annotations

from tests.support.raw_connection import WITH_KEY, Wire, post
from tests.support.server import Server


def test_an_answer_says_how_long_its_connection_is_kept(server: Server) -> None:
    with Wire(server, 2 * post(b"/api/v1/runs", WITH_KEY, method=b"GET")) as wire:
        response = b""
        while response.count(b'"next"') < 2:
            response += wire.socket.recv(1 << 16)
        assert response.lower().count(b"\r\nkeep-alive: timeout=75\r\n") == 2 and b"connection: close" not in response
        wire.send(post(b"/api/v1/runs", WITH_KEY, b"Connection: close", method=b"GET"))
        assert b"keep-alive" not in wire.rest().lower()
