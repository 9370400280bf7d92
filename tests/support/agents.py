"""Agents in tests: sockets and requests against the real application, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from channels.testing import HttpCommunicator, WebsocketCommunicator

from tests.support.server import PATIENCE
from toolcards.transports.background import connections


class Agent:
    """One socket. `hear(type)` returns the next message of that type; others are kept for later."""

    def __init__(self, communicator: WebsocketCommunicator) -> None:
        self.wire = communicator
        self._messages: list[dict[str, Any]] = []

    async def say(self, *frames: Any) -> None:
        for frame in frames:
            await self.wire.send_to(text_data=frame if isinstance(frame, str) else json.dumps(frame))

    async def hear(self, kind: str, timeout: float = PATIENCE) -> dict[str, Any]:
        for message in self._messages:
            if message["type"] == kind:
                self._messages.remove(message)
                return message
        while True:
            message = json.loads(await self.wire.receive_from(timeout))
            if message["type"] == kind:
                return message
            self._messages.append(message)

    @property
    def has_news(self) -> bool:
        """Whether a message arrived that was not yet read."""
        return bool(self._messages) or not self.wire.output_queue.empty()

    async def silent(self, seconds: float) -> bool:
        """Whether no message arrived (a timed-out `hear` would end the application)."""
        return not self._messages and await self.wire.receive_nothing(seconds, 0.05)

    async def acked(self, frames: int) -> dict[str, Any]:
        while (ack := await self.hear("ack"))["frames"] < frames:
            pass
        assert ack["frames"] == frames
        return ack

    async def await_close_code(self, timeout: float = PATIENCE) -> int:
        while True:
            output = await self.wire.receive_output(timeout)
            if output["type"] == "websocket.close":
                return int(output["code"])


async def wait_for_senders(sockets: int = 1) -> None:
    """Wait until this many sockets are senders of a run, also without frames."""
    async with asyncio.timeout(PATIENCE):
        while sum(bool(each.stream and each.stream.run_pk) for each in connections.connections) < sockets:
            await asyncio.sleep(0.01)


@pytest.fixture
def agent(secret: str) -> Callable[..., Any]:
    """Give `async with agent(run=…, protocol=…) as socket`."""
    from dashboard.asgi import application

    @contextlib.asynccontextmanager
    async def connect(*, key: str = secret, headers: tuple[Any, ...] = (), **query: str) -> AsyncIterator[Agent]:
        entries = [(b"authorization", f"Bearer {key}".encode())] if key else []
        path = f"/ws/agent/?{urlencode({'protocol': 'native'} | query)}"
        communicator = WebsocketCommunicator(application, path, headers=[(b"host", b"testserver"), *entries, *headers])
        connected, _ = await communicator.connect(timeout=PATIENCE)
        assert connected
        try:
            yield Agent(communicator)
        finally:
            await communicator.disconnect(timeout=PATIENCE)

    return connect


@pytest.fixture
def call(secret: str) -> Callable[..., Any]:
    """Give `await call(method, path, body)`: status, JSON and headers of one request."""
    from dashboard.asgi import application

    async def request(
        method: str, path: str, body: Any = None, *, key: str | None = secret, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        by_name = {name.replace("_", "-").lower(): value for name, value in headers.items()}
        if key:
            by_name.setdefault("authorization", f"Bearer {key}")
        if not isinstance(body, (bytes, str, type(None))):
            body = json.dumps(body)
        if body is not None:
            by_name.setdefault("content-type", "application/json")
        header_list = [(name.encode(), value.encode()) for name, value in ({"host": "127.0.0.1"} | by_name).items()]
        raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body or b""
        answer = await HttpCommunicator(application, method, path, raw, header_list).get_response(timeout=PATIENCE)
        shown_text = {name.decode().lower(): value.decode() for name, value in answer["headers"]}
        text = answer["body"].decode()
        return answer["status"], json.loads(text) if "json" in shown_text.get("content-type", "") else text, shown_text

    return request
