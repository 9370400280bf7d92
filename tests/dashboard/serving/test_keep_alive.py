"""Idle connections: how long they are kept."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from dashboard.serving.http_protocol import HttpProtocol
from tests.support.raw_connection import WITH_KEY, Wire, post
from tests.support.server import Server
from toolcards.transports.api.admission import WHOLE_ANSWER
from toolcards.transports.api.asgi_messages import send_json


def test_an_answer_says_how_long_its_connection_is_kept(server: Server) -> None:
    with Wire(server, 2 * post(b"/api/v1/runs", WITH_KEY, method=b"GET")) as wire:
        response = b""
        while response.count(b'"next"') < 2:
            response += wire.socket.recv(1 << 16)
        assert response.lower().count(b"\r\nkeep-alive: timeout=75\r\n") == 2 and b"connection: close" not in response
        wire.send(post(b"/api/v1/runs", WITH_KEY, b"Connection: close", method=b"GET"))
        assert b"keep-alive" not in wire.rest().lower()


REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.0\r\nHost: x\r\n\r\n",
    b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + b"GET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nearly",
]
CONTENT = {"run": "Straße", "n": 1}


class Application:
    """Answers with JSON. `is_offered`: the server's extension is left in the scope."""

    def __init__(self, is_offered: bool) -> None:
        self.is_offered, self.whole_answers = is_offered, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        write = scope["extensions"].pop(WHOLE_ANSWER)
        if self.is_offered:
            scope["extensions"][WHOLE_ANSWER] = lambda *parts: self._count(write(*parts))
        await send_json(scope, send, CONTENT)

    def _count(self, is_written: bool) -> bool:
        self.whole_answers += is_written
        return is_written


async def exchange(application: Application, request: bytes) -> bytes:
    """Send the request to the application behind our protocol; return all bytes of the answers."""
    config = Config(application, access_log=False, lifespan="off", log_config=None)
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    state.default_headers = [(b"date", b"now"), (b"server", b"test")]
    server = await loop.create_server(
        lambda: HttpProtocol(config=config, server_state=state, app_state={}, _loop=loop), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(request)
    expected, response = request.count(b" HTTP/"), b""
    while response.count(b"HTTP/1.1 200 OK") < expected or not re.search(rb"\r\n\r\n(\{.*\})?$", response):
        piece = await reader.read(1 << 16)
        response += piece
        if not piece:
            break
    writer.close()
    server.close()
    return response


def read_answer(response: bytes) -> tuple[bytes, set[bytes], bytes]:
    head, _, body = response.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    return status, set(lines), body


@pytest.mark.parametrize("request_bytes", REQUESTS, ids=lambda data: data[:30].decode().split("\r")[0])
def test_the_bytes_are_those_of_uvicorn(request_bytes: bytes) -> None:
    ours, theirs = Application(is_offered=True), Application(is_offered=False)
    response, expected = (asyncio.run(exchange(application, request_bytes)) for application in (ours, theirs))
    assert read_answer(response) == read_answer(expected)
    assert ours.whole_answers == (0 if request_bytes.startswith(b"HEAD") else request_bytes.count(b" HTTP/"))


def test_an_answer_with_headers_of_its_own_is_left_to_uvicorn() -> None:
    class WithHeader(Application):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send_json(scope, send, CONTENT, {"X-Mine": "1"})

    response = asyncio.run(exchange(WithHeader(is_offered=True), REQUESTS[0]))
    assert b"x-mine: 1" in read_answer(response)[1]
