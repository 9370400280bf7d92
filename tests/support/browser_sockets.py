"""Opens the dashboard's live sockets in a test, and waits for their frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import Client

from dashboard.asgi import application
from tests.support.gate_commands import RecordFacts
from tests.support.server import PATIENCE
from toolcards.gate.writer import group_commit

ORIGIN = b"http://testserver"


def socket(client: Client | None, path: str, origin: bytes = ORIGIN) -> WebsocketCommunicator:
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value if client else ""
    headers = [(b"origin", origin), (b"host", b"testserver")]
    headers += [(b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode())] if client else []
    return WebsocketCommunicator(application, path, headers=headers)


@asynccontextmanager
async def watching(client: Client | None, path: str) -> AsyncIterator[WebsocketCommunicator]:
    live_socket = socket(client, path)
    assert (await live_socket.connect(timeout=PATIENCE))[0]
    try:
        yield live_socket
    finally:
        await live_socket.disconnect(timeout=PATIENCE)
        await asyncio.sleep(0.05)


async def text_with(websocket_communicator: WebsocketCommunicator, expected: str, seconds: float = PATIENCE) -> str:
    """Read frames until one holds that text."""
    until = asyncio.get_running_loop().time() + seconds
    text = ""
    while asyncio.get_running_loop().time() < until:
        text = await websocket_communicator.receive_from(timeout=seconds)
        if expected in text:
            return text
    raise AssertionError(f"{expected} did not come; last was {text[:300]}")


async def until_true(value: Callable[[], Any], seconds: float = PATIENCE) -> None:
    until = asyncio.get_running_loop().time() + seconds
    while not value():
        assert asyncio.get_running_loop().time() < until, "it did not come true in time"
        await asyncio.sleep(0.02)


async def close_code(websocket_communicator: WebsocketCommunicator, seconds: float = PATIENCE) -> int:
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        message = await websocket_communicator.receive_output(timeout=seconds)
        if message["type"] == "websocket.close":
            return int(message["code"])
    raise AssertionError("it was not closed")


say = sync_to_async(
    lambda source, run, *facts: group_commit.execute(RecordFacts(source, run, list(facts))), thread_sensitive=True
)
