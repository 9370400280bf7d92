"""Two servers on one PostgreSQL and one Redis are one Toolcards."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.services import postgres, redis
from tests.serving import PATIENCE, Server

pytestmark = [pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two servers that share nothing but the database, the bell and the data folder."""
    folder = tmp_path_factory.mktemp("scale")
    with postgres(folder) as database, redis(folder) as bell:
        data = folder / "data"
        data.mkdir()
        shared = {"database_url": database, "redis_url": bell, "secret_key": "s" * 50, "grace": 600}
        with Server(data, **shared) as one, Server(data, **shared) as other:
            yield one, other


def test_a_run_may_come_in_through_both(two: tuple[Server, Server]) -> None:
    for turn in range(20):
        call = {"type": "tool.input.available", "call_id": f"c{turn}", "tool": "read", "input": {"path": str(turn)}}
        done = {"type": "tool.output.available", "call_id": f"c{turn}", "output": turn}
        for server, frame in ((two[turn % 2], call), (two[(turn + 1) % 2], done)):
            with server.socket(protocol="native", run="both", mode="observe") as socket:
                socket.send(json.dumps(frame))
                assert json.loads(socket.recv(PATIENCE))["type"] == "ack"
    calls = two[0].get("/api/v1/runs/both/calls")["calls"]
    assert [call["state"] for call in calls] == ["output-available"] * 20
    assert two[1].get("/api/v1/runs/both")["counts"] == {"output-available": 20}
    assert two[0].manage("replay", "--check").returncode == 0


def test_two_servers_fed_at_once_lose_nothing(two: tuple[Server, Server]) -> None:
    def feed(server: Server, mark: str) -> None:
        with server.socket(protocol="native", run="at-once", mode="observe") as socket:
            for number in range(200):
                frame = {"type": "tool.output.available", "call_id": f"{mark}{number}", "output": number}
                socket.send(json.dumps(frame))
            acked = 0
            while acked < 200:
                acked = json.loads(socket.recv(PATIENCE)).get("frames", acked)

    threads = [threading.Thread(target=feed, args=(server, mark)) for server, mark in zip(two, "ab", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert two[0].get("/api/v1/runs/at-once")["calls"] == 400
    assert two[1].manage("replay", "--check").returncode == 0


def test_an_answer_given_at_one_server_reaches_the_agent_at_the_other(two: tuple[Server, Server]) -> None:
    asking = {"run": "gated", "call_id": "g1", "tool": {"name": "bash"}, "args": {"command": "rm -rf build"}}
    status, asked, _ = two[0].request("POST", "/api/v1/calls/decide", asking)
    assert (status, asked["decision"]) == (200, "ask")
    told: dict[str, Any] = {}

    def wait() -> None:
        told.update(two[0].request("GET", f"/api/v1/approvals/{asked['approval']['id']}?wait=60")[1])

    waiting = threading.Thread(target=wait)
    waiting.start()
    status, said, _ = two[1].request("POST", f"/api/v1/approvals/{asked['approval']['id']}/withdraw", {})
    assert status == 200, said
    waiting.join(2 * PATIENCE)
    assert told["decision"] == "deny"
    assert two[1].get("/api/v1/runs/gated/calls")["calls"][0]["state"] == "output-error"
