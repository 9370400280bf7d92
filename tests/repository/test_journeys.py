"""How many of our own calls and modules a journey takes: the limits may only shrink.

A journey begins on an idle server and ends with the first silence after its effect. The least of several is compared,
since work of others can fall into one. On a busy machine more of it does: the limits are a tenth above a quiet one.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.call_counter import FILE
from tests.support.server import KEY, ROOT, Server, until
from tests.support.voter import Voter

SILENCE = 0.3  # seconds
TIMES = 7
# Calls and modules of each journey. Where you take steps away, lower its numbers; nothing may raise them.
LIMITS = {
    "a delta, to a page that watches": (305, 58),
    "decide: allow": (725, 103),
    "decide: ask, to a page that watches": (1225, 147),
    "a vote, to an agent that waits": (825, 111),
    "claim": (410, 73),
    "input on a gate socket: ask": (1150, 141),
}
_numbers = itertools.count(1)


class CountedServer(Server):
    """A server whose calls are counted."""

    def __init__(self, data: Path) -> None:
        super().__init__(data, bare=True, database_url="", redis_url="")
        self.program = [sys.executable, "-m", "tests.support.call_counter"]

    def _env(self) -> dict[str, str]:
        return super()._env() | {FILE: str(self.data / "calls.json"), "PYTHONPATH": str(ROOT)}

    def count(self, journey: Callable[[], object]) -> tuple[int, int]:
        """Return the calls and modules of the journey."""
        self.wait_for_silence()
        self._signal(signal.SIGUSR1)
        journey()
        rows = self.rows = self.wait_for_silence()
        return sum(count for _, _, count in rows), len({module for module, _, _ in rows})

    def _signal(self, number: signal.Signals) -> None:
        assert isinstance(self.process, subprocess.Popen)
        os.kill(self.process.pid, number)

    def wait_for_silence(self) -> list[list[Any]]:
        """Wait until nothing was called for a while; return what was counted."""
        path = self.data / "calls.json"

        def read() -> Any:
            path.unlink(missing_ok=True)
            self._signal(signal.SIGUSR2)
            until(path.exists)
            content = json.loads(path.read_text())
            if content["idle"] < SILENCE:
                time.sleep(SILENCE - content["idle"])
                return None
            return content

        rows: list[list[Any]] = until(read)["calls"]
        return rows


@pytest.fixture(scope="module")
def counting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedServer]:
    with CountedServer(tmp_path_factory.mktemp("counted")) as server:
        yield server


@pytest.fixture(scope="module")
def voter(counting_server: CountedServer) -> Voter:
    return Voter(counting_server)


def decide(server: Server, run: str, tool: str, args: Any) -> dict[str, Any]:
    body = {"run": run, "call_id": f"c{next(_numbers)}", "tool": tool, "args": args}
    answer: dict[str, Any] = server.request("POST", "/api/v1/calls/decide", body)[1]
    return answer


ALLOWED: tuple[str, dict[str, Any]] = ("Read", {"file_path": "/srv/a.txt"})


def build_asked() -> tuple[str, dict[str, Any]]:
    """Return a call that asks, unlike all others: an equal one would wait for the same answer."""
    return "delete_file", {"path": f"/srv/{next(_numbers)}.txt"}


def count_deltas(server: CountedServer, voter: Voter) -> Iterator[tuple[int, int]]:
    with server.socket(protocol="native", run="delta", agent="a") as agent:
        agent.send(json.dumps({"type": "tool.input.started", "call_id": "c", "tool": "write"}))
        agent.recv()
        with voter.watch("/ws/runs/delta/") as page:
            page.recv()

            def send() -> None:
                agent.send(json.dumps({"type": "tool.input.delta", "call_id": "c", "delta": "abc "}))
                agent.recv()
                page.recv()

            for _ in range(TIMES + 1):
                yield server.count(send)


def count_allowed(server: CountedServer, voter: Voter) -> Iterator[tuple[int, int]]:
    for _ in range(TIMES + 1):
        yield server.count(lambda: decide(server, "allowed", *ALLOWED))


def count_asked(server: CountedServer, voter: Voter) -> Iterator[tuple[int, int]]:
    decide(server, "asked", *build_asked())
    with voter.watch("/ws/runs/asked/") as page:
        page.recv()

        def ask() -> None:
            assert decide(server, "asked", *build_asked())["decision"] == "ask"
            page.recv()

        for _ in range(TIMES + 1):
            yield server.count(ask)


def count_votes(server: CountedServer, voter: Voter) -> Iterator[tuple[int, int]]:
    pool = ThreadPoolExecutor(1)
    for number in range(TIMES + 1):
        approval = decide(server, f"voted-{number}", *build_asked())["approval"]["id"]
        waiting = pool.submit(server.request, "GET", f"/api/v1/approvals/{approval}?wait=30")
        server.wait_for_silence()
        call = voter.waiting(f"voted-{number}")
        fields = {"rev": str(call["rev"]), "args_sha256": call["approval"]["args_sha256"], "decision": "approve"}
        send = voter.prepare_vote(f"/approvals/{approval}/vote", fields)

        def vote(send: Callable[[], None] = send, waiting: Future[Any] = waiting) -> None:
            send()
            assert waiting.result()[1]["decision"] == "allow"

        yield server.count(vote)


def count_claims(server: CountedServer, voter: Voter) -> Iterator[tuple[int, int]]:
    for _ in range(TIMES + 1):
        decision = decide(server, "claimed", *ALLOWED)
        path, body = (
            f"/api/v1/permits/{decision['permit']['id']}/claim",
            {
                "call_id": decision["call_id"],
                "args_sha256": decision["args_sha256"],
            },
        )

        def claim(path: str = path, body: Any = body) -> None:
            assert server.request("POST", path, body)[0] == 200

        yield server.count(claim)


def count_inputs(server: CountedServer, voter: Voter) -> Iterator[tuple[int, int]]:
    with server.socket(protocol="native", run="gated", agent="a", mode="gate", key=KEY) as agent:
        tool, args = build_asked()
        agent.send(json.dumps({"type": "tool.input.available", "call_id": "first", "tool": tool, "input": args}))
        while json.loads(agent.recv())["type"] != "decision":
            pass
        with voter.watch("/ws/runs/gated/") as page:
            page.recv()

            def send() -> None:
                tool, args = build_asked()
                call = {"call_id": f"c{next(_numbers)}", "tool": tool, "input": args}
                agent.send(json.dumps({"type": "tool.input.available", **call}))
                while json.loads(agent.recv())["type"] != "decision":
                    pass
                page.recv()

            for _ in range(TIMES + 1):
                yield server.count(send)


JOURNEYS = dict(zip(
    LIMITS, (count_deltas, count_allowed, count_asked, count_votes, count_claims, count_inputs), strict=True
))  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", LIMITS)
def test_a_journey_takes_no_more_steps_than_before(counting_server: CountedServer, voter: Voter, name: str) -> None:
    counts = list(JOURNEYS[name](counting_server, voter))[1:]  # the first one fills caches
    least = (min(calls for calls, _ in counts), min(modules for _, modules in counts))
    limit = LIMITS[name]
    assert least <= limit and least[1] <= limit[1], f"{name}: {least}, and the limit is {limit}"
