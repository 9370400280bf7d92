"""Recorded traffic of real libraries, over the wire: cut anywhere, over HTTP or a socket, it ends as it did."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from channels.testing import ApplicationCommunicator

from tests.support.server import PATIENCE
from tests.support.trace_player import bodies, texts_of
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
RECORDED = [pytest.param(*rest, id=f"{name}/{scenario}") for name, scenario, *rest in bodies()]
KINDS = {".sse": b"text/event-stream", ".ndjson": b"application/x-ndjson", ".jsonl": b"application/x-ndjson"}


def expected(payload: dict[str, Any]) -> tuple[dict[str, str], str]:
    by_wire = payload.get("by_wire", {})
    states = {call: by_wire.get("calls", {}).get(call, record["final"]) for call, record in payload["calls"].items()}
    return states, by_wire.get("status", payload["run"])


async def read_states() -> tuple[dict[str, str], str]:
    states = {call.call_id: call.state async for call in ToolCall.objects.not_removed()}
    return states, (await Run.objects.aget()).status


def pieces(data: bytes, seed: str) -> list[bytes]:
    """The bytes cut at random, inside characters too."""
    chance = random.Random(seed)
    cuts = sorted({0, len(data), *(chance.randrange(len(data)) for _ in range(min(40, len(data) // 8)))})
    return [data[start:end] for start, end in itertools.pairwise(cuts)]


async def post(protocol: str, path: Path, secret: str) -> int:
    from dashboard.asgi import application

    headers = [
        (b"host", b"testserver"),
        (b"authorization", f"Bearer {secret}".encode()),
        (b"content-type", KINDS[path.suffix]),
    ]
    scope = {
        "type": "http", "method": "POST", "path": "/api/v1/ingest", "headers": headers,
        "query_string": f"protocol={protocol}&run=recorded".encode(),
    }  # fmt: skip
    wire = ApplicationCommunicator(application, scope)
    for piece in pieces(path.read_bytes(), path.name):
        await wire.send_input({"type": "http.request", "body": piece, "more_body": True})
    await wire.send_input({"type": "http.request", "body": b""})
    start = await wire.receive_output(PATIENCE)
    await wire.receive_output(PATIENCE)
    return int(start["status"])


@pytest.mark.thorough
@pytest.mark.parametrize(("protocol", "turns", "value"), RECORDED)
async def test_a_recording_cut_at_random_ends_over_http_as_it_did(
    protocol: str, turns: list[Path], value: Any, secret: str
) -> None:
    for turn in turns:
        assert await post(protocol, turn, secret) == 200
    assert await read_states() == expected(value)


@pytest.mark.parametrize(("protocol", "turns", "value"), RECORDED[::4])
async def test_a_recording_over_a_socket_ends_with_the_grace_as_it_did(
    protocol: str, turns: list[Path], value: Any, agent: Any, limits: Any
) -> None:
    frames = [text for turn in turns for text in texts_of(turn)]
    async with agent(protocol=protocol, run="recorded", mode="observe") as socket:
        await socket.say(*frames)
        await socket.acked(len(frames))
    states, status = await read_states()
    expected_states, end = expected(value)
    if end == "truncated":  # what the end of a body says, silence says for a socket: see test_socket
        assert status == "running"
    else:
        assert status == end
        assert states == expected_states
