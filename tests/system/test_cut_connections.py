"""Connections that break off at any byte of a request or of its answer, between a gated tool and a real server.

The model: the function runs at most once, and only as it was approved; the server knows how each call ended.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import gating
from tests.support.cutting_proxy import Cut, CuttingProxy
from tests.support.javascript import NODE, Node
from tests.support.server import PATIENCE, Server, until
from tests.support.voter import Voter
from toolcards.client import Denied, Toolcards, gated

PLACES = {"decide": "/calls/decide", "poll": "?wait=", "claim": "/claim", "result": "/result"}
PARTS = (0, 1, 40, 200, 420, 600, 800, 1000)  # bytes that pass
FEW_PARTS = (0, 40, 420, 800)  # each of them starts a Node.js
ENDS = {"output-available": 1, "output-error": 0}  # how often the function ran


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("cut")) as running:
        gating.activate(running, gating.policy("bash", "/command"))
        yield running


class CutOnce:
    """Cuts one request of this kind, or all of them."""

    def __init__(self, kind: str, cut: Cut, *, always: bool) -> None:
        self._kind, self._cut, self._always, self._is_over = kind, cut, always, False

    def __call__(self, line: str) -> Cut | None:
        if self._is_over or PLACES[self._kind] not in line:
            return None
        self._is_over = not self._always
        return self._cut


Program = Callable[[str, str, str, str], tuple[list[str], str]]


def call_from_python(url: str, key: str, run: str, command: str) -> tuple[list[str], str]:
    """Call a gated function; return what ran, and a denial that is not the client's own."""
    ran: list[str] = []

    @gated(Toolcards(url, key, timeout=PATIENCE), run=run, tool="bash", seconds=PATIENCE)
    def bash(command: str) -> str:
        ran.append(command)
        return "done"

    try:
        bash(command)
    except Denied as denied:
        return ran, "" if denied.decision.by == "client" else str(denied)
    return ran, ""


def start_javascript(folder: Path) -> Program:
    """Return the same with a Node.js of its own, which remains until the test ends."""

    def call(url: str, key: str, run: str, command: str) -> tuple[list[str], str]:
        folder.mkdir()
        node = Node(folder).__enter__()
        nodes.append(node)
        request = {"tool": "bash", "id": "call_1", "args": {"command": command}}
        result = node.play(client="gated", url=url, key=key, run=run, calls=[request], seconds=PATIENCE)
        return [args["command"] for _, args in result["ran"]], ""

    return call


nodes: list[Node] = []


@pytest.fixture(autouse=True)
def _ended_nodes() -> Iterator[None]:
    yield
    while nodes:
        nodes.pop().__exit__(None, None, None)


def call_through(server: Server, voter: Voter | None, lock: threading.Lock, plan: CutOnce, program: Program) -> str:
    """Call a gated tool through a proxy that cuts; return what is wrong, "" if nothing is."""
    run, command = f"run-{secrets.token_hex(4)}", "python3 x" if voter is None else "echo ask"
    with CuttingProxy(server.base, plan) as proxy, ThreadPoolExecutor(1) as person:

        def approve() -> None:
            assert voter is not None
            voter.waiting(run)
            with lock:  # one browser
                voter.vote(run, "approve")

        approving = person.submit(approve) if voter is not None else None
        ran, denial = program(proxy.url, server.key, run, command)
        if denial:
            return f"{run} was denied: {denial}"
        if approving is not None:
            approving.result()

        calls = _read_ends(server, run, at_least=len(ran))
    runs = sum(ENDS[call["state"]] for call in calls)
    anomalies = [each["code"] for call in calls for each in call["anomalies"]]
    is_right = len(calls) <= 1 and runs == len(ran) and set(ran) <= {command} and not anomalies
    return "" if is_right else f"{run}: ran {ran}, the server has {calls}"


def _read_ends(server: Server, run: str, *, at_least: int) -> list[dict[str, Any]]:
    """Return the calls of a run as soon as all of them ended; a question may never have arrived."""
    calls: list[dict[str, Any]] = []

    def look() -> bool:
        calls[:] = gating.calls(server, run).values()
        return len(calls) >= at_least and all(call["state"] in ENDS for call in calls)

    until(look)
    return calls


@pytest.mark.thorough
@pytest.mark.parametrize("kind", list(PLACES))
@pytest.mark.parametrize(
    "language",
    ["python", pytest.param("javascript", marks=pytest.mark.skipif(NODE is None, reason="not here: Node.js"))],
)
def test_a_cut_runs_nothing_twice_and_leaves_nothing_open(
    server: Server, kind: str, language: str, tmp_path: Path
) -> None:
    voter, lock = Voter(server) if kind == "poll" else None, threading.Lock()
    parts = PARTS if language == "python" else FEW_PARTS
    cuts = [Cut(**{side: size}) for side in ("request", "answer") for size in parts]
    plans = [CutOnce(kind, cut, always=False) for cut in cuts]
    if kind != "poll":  # the client gives up after two minutes
        plans.append(CutOnce(kind, Cut(answer=0), always=True))

    def call(number: int) -> str:
        program = call_from_python if language == "python" else start_javascript(tmp_path / str(number))
        return call_through(server, voter, lock, plans[number], program)

    with ThreadPoolExecutor(len(plans)) as pool:
        faults = list(pool.map(call, range(len(plans))))
    assert not any(faults), [fault for fault in faults if fault]
