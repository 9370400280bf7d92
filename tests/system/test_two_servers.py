"""Two servers on one PostgreSQL and one Redis are one Toolcards."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.server import PATIENCE, Server, until
from tests.support.services import Redis, postgres
from tests.support.voter import Voter

pytestmark = [pytest.mark.postgres, pytest.mark.redis]


class Unhurried(Server):
    """A server whose followers never look without a ring."""

    def _env(self) -> dict[str, str]:
        return super()._env() | {"DJANGO_SETTINGS_MODULE": "tests.support.bell_only_settings"}


@pytest.fixture(scope="module")
def bell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """The Redis between the servers."""
    with Redis(tmp_path_factory.mktemp("bell")) as running:
        yield running


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, bell: Redis) -> Iterator[tuple[Server, Server]]:
    """Two servers that share nothing but the database, the bell and the data folder."""
    folder = tmp_path_factory.mktemp("scale")
    with postgres(folder) as database:
        data = folder / "data"
        data.mkdir()
        shared = {"database_url": database, "redis_url": bell.url, "secret_key": "s" * 50, "grace": 600}
        with Unhurried(data, **shared) as one, Unhurried(data, **shared) as other:
            yield one, other


def test_a_run_may_come_in_through_both(two: tuple[Server, Server]) -> None:
    for turn in range(20):
        call = {"type": "tool.input.available", "call_id": f"c{turn}", "tool": "read", "input": {"path": str(turn)}}
        completed = {"type": "tool.output.available", "call_id": f"c{turn}", "output": turn}
        for server, frame in ((two[turn % 2], call), (two[(turn + 1) % 2], completed)):
            with server.socket(protocol="native", run="both", mode="observe") as socket:
                socket.send(json.dumps(frame))
                assert json.loads(socket.recv(PATIENCE))["type"] == "ack"
    calls = two[0].get("/api/v1/runs/both/calls")["calls"]
    assert [call["state"] for call in calls] == ["output-available"] * 20
    assert two[1].get("/api/v1/runs/both")["counts"] == {"output-available": 20}
    assert two[0].manage("replay", "--check").returncode == 0


def test_postgresql_counts_the_calls_of_the_pages_of_tools_and_agents(two: tuple[Server, Server]) -> None:
    frames = [
        {"type": "tool.input.available", "call_id": "c", "tool": "measured", "input": {}},
        {"type": "tool.output.available", "call_id": "c", "output": 1},
    ]
    body = "".join(json.dumps(frame) + "\n" for frame in frames)
    address = "/api/v1/ingest?protocol=native&run=measured&agent=bot"
    assert two[0].request("POST", address, body, Content_Type="application/x-ndjson")[0] == 200
    person = Voter(two[1])
    for page, name in (("tools", "measured"), ("agents", "bot")):
        html = person.get(f"/calls/{page}/?range=all")
        row = html.split(f">{name}<")[1].split("</tr>")[0]
        assert re.search(r"\d+ ms|\d+\.\d s", row), row


def test_an_answer_given_at_one_server_reaches_the_agent_at_the_other(two: tuple[Server, Server]) -> None:
    request = {"run": "gated", "call_id": "g1", "tool": {"name": "bash"}, "args": {"command": "rm -rf build"}}
    status, decision, _ = two[0].request("POST", "/api/v1/calls/decide", request)
    assert (status, decision["decision"]) == (200, "ask")
    fields: dict[str, Any] = {}

    def wait() -> None:
        fields.update(two[0].request("GET", f"/api/v1/approvals/{decision['approval']['id']}?wait=60")[1])

    waiting = threading.Thread(target=wait)
    waiting.start()
    status, approval, _ = two[1].request("POST", f"/api/v1/approvals/{decision['approval']['id']}/withdraw", {})
    assert status == 200, approval
    waiting.join(2 * PATIENCE)
    assert fields["decision"] == "deny"
    assert two[1].get("/api/v1/runs/gated/calls")["calls"][0]["state"] == "output-error"


@contextlib.contextmanager
def watch_run(person: Voter, run: str) -> Iterator[list[str]]:
    """Keep the page of a run open at the person's server; the list is what its socket has brought."""
    frames: list[str] = []

    def follow() -> None:
        with contextlib.suppress(ConnectionClosed):
            frames.extend(page)

    with person.watch(f"/ws/runs/{run}/") as page:
        following = threading.Thread(target=follow)
        following.start()
        until(lambda: frames)
        yield frames
    following.join(PATIENCE)


def say(agent: Any, call_id: str, tool: str = "read") -> None:
    fields = {"type": "tool.input.available", "call_id": call_id, "tool": tool, "input": {"command": "rm -rf build"}}
    agent.send(json.dumps(fields))


def test_news_and_answers_reach_the_other_server_by_the_bell_and_again_after_redis_was_away(
    two: tuple[Server, Server], bell: Redis
) -> None:
    people = [Voter(server) for server in two]
    with contextlib.ExitStack() as stack:
        agents = [stack.enter_context(server.socket(protocol="native", run=f"r{n}")) for n, server in enumerate(two)]
        for agent in agents:
            say(agent, "first")
            agent.recv(PATIENCE)
        pages = [stack.enter_context(watch_run(people[1 - n], f"r{n}")) for n in range(2)]
        for agent, page in zip(agents, pages, strict=True):
            say(agent, "across")
            until(lambda page=page: any("across" in frame for frame in page))
        bell.kill()
        for agent in agents:
            say(agent, "unheard")
            agent.recv(PATIENCE)
        bell.start()
        for agent, page in zip(agents, pages, strict=True):

            def back(agent: Any = agent, page: list[str] = page) -> bool:
                say(agent, f"again{time.monotonic_ns()}")
                time.sleep(0.2)
                return any("again" in frame for frame in page)

            until(back)
        request = stack.enter_context(two[0].socket(protocol="native", run="asking", mode="gate"))
        say(request, "c", tool="bash")
        people[1].vote("asking", "deny", "Not today.")
        while json.loads(request.recv(PATIENCE)).get("decision") != "deny":
            pass
    log = two[0].data / "server.log"
    until(lambda: log.read_text().count("bell fails") == log.read_text().count("bell works again"))
    text = log.read_text()
    assert text.count("bell fails") <= 4
    assert "Traceback" not in text and "never retrieved" not in text and "was destroyed" not in text


def test_two_servers_lose_nothing_though_no_ring_arrives(two: tuple[Server, Server], bell: Redis) -> None:
    bell.kill()

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
