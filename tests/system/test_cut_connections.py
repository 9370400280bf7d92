"""Connections that break off at any byte of a request or of its answer, between a gated function and a real server.

The model: the function runs at most once, and only as it was approved; the server knows how each call ended.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import gating
from tests.support.cutting_proxy import Cut, CuttingProxy
from tests.support.server import PATIENCE, Server, until
from tests.support.voter import Voter
from toolcards.client import Denied, Toolcards, gated

PLACES = {"decide": "/calls/decide", "poll": "?wait=", "claim": "/claim", "result": "/result"}
PARTS = (0, 1, 40, 200, 420, 600, 800, 1000)  # bytes that pass
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


def call_through(server: Server, voter: Voter | None, lock: threading.Lock, plan: CutOnce) -> str:
    """Call a gated function through a proxy that cuts; return what is wrong, "" if nothing is."""
    run, ran = f"run-{secrets.token_hex(4)}", []
    command = "python3 x" if voter is None else "echo ask"
    with CuttingProxy(server.base, plan) as proxy, ThreadPoolExecutor(1) as person:
        cards = Toolcards(proxy.url, server.key, timeout=PATIENCE)

        @gated(cards, run=run, tool="bash", seconds=PATIENCE)
        def bash(command: str) -> str:
            ran.append(command)
            return "done"

        def approve() -> None:
            assert voter is not None
            voter.waiting(run)
            with lock:  # one browser
                voter.vote(run, "approve")

        approving = person.submit(approve) if voter is not None else None
        try:
            bash(command)
        except Denied as denied:
            if denied.decision.by != "client":
                return f"{run} was denied: {denied}"
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


@pytest.mark.parametrize("kind", list(PLACES))
def test_a_cut_runs_nothing_twice_and_leaves_nothing_open(server: Server, kind: str) -> None:
    voter, lock = Voter(server) if kind == "poll" else None, threading.Lock()
    cuts = [Cut(**{side: size}) for side in ("request", "answer") for size in PARTS]
    plans = [CutOnce(kind, cut, always=False) for cut in cuts]
    if kind != "poll":  # the client gives up after two minutes
        plans.append(CutOnce(kind, Cut(answer=0), always=True))
    with ThreadPoolExecutor(len(plans)) as pool:
        faults = list(pool.map(lambda plan: call_through(server, voter, lock, plan), plans))
    assert not any(faults), [fault for fault in faults if fault]
