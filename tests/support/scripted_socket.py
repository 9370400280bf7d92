"""A WebSocket server that does what a test says, one function per connection, and keeps the frames it got."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from toolcards.client.common.canonical_json import call_digest, digest

Behavior = Callable[["Script", ServerConnection], Awaitable[None]]


class Script:
    """What the server does: the first connection as the first function says, and so on; the last one repeats."""

    def __init__(self, *connections: Behavior) -> None:
        self.connections, self.messages = list(connections), list[Any]()
        self.connection_count = 0

    async def __call__(self, socket: ServerConnection) -> None:
        self.connection_count += 1
        behave = self.connections.pop(0) if len(self.connections) > 1 else self.connections[0]
        with contextlib.suppress(ConnectionClosed):
            await behave(self, socket)

    async def frames(self, socket: ServerConnection, expected: int) -> list[Any]:
        """Return the next frames, at least so many."""
        messages: list[Any] = []
        while len(messages) < expected:
            message = json.loads(await socket.recv())
            messages += message if isinstance(message, list) else [message]
        self.messages += messages
        return messages


async def ack_all(script: Script, socket: ServerConnection) -> None:
    """Acknowledge each frame, and allow each input."""
    count = 0
    while True:
        for frame in await script.frames(socket, 1):
            count += 1
            await socket.send(json.dumps({"type": "ack", "seq": count, "frames": count}))
            if frame["type"] == "tool.input.available":
                await decide(socket, frame["call_id"], "allow", frame["input"])


async def decide(socket: ServerConnection, call_id: str, decision: str, input_value: Any, **more: Any) -> None:
    """Send a decision about a call of `bash`."""
    binding = {
        "run": "r1", "call_id": call_id, "attempt": 1, "tool": {"name": "bash", "source": ""},
        "args_sha256": digest(input_value), "call_sha256": call_digest(input_value, name="bash"),
    }  # fmt: skip
    await socket.send(json.dumps({"type": "decision", "decision": decision, **binding, **more}))


@contextlib.asynccontextmanager
async def serve_script(script: Script, **options: Any) -> AsyncIterator[str]:
    """Serve on loopback; give the address."""
    async with serve(script, "127.0.0.1", 0, **options) as server:
        yield f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
