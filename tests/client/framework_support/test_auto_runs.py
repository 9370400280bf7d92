"""Runs that open with their first call, and end when they are idle or closed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.held_gate import hold_stage, in_child
from tests.support.server import PATIENCE, until
from toolcards.client import Toolcards
from toolcards.client.framework_support.auto_runs import AutoRuns
from toolcards.client.framework_support.call_registry import find_registry
from toolcards.client.transport import threads

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"bash": "allow", "ask": "ask"}) as running:
        yield running


@forks
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_opens_runs_of_its_own(gate: Gate) -> None:
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="a")

    def decided() -> Any:
        registry = find_registry(runs.run("thread"))
        assert registry is not None
        return registry.enter("c", "bash", {}).ask_now({}, seconds=PATIENCE).allowed

    assert decided() and in_child(decided) and decided()
    runs.close()
    assert len({call.run for call in gate.calls}) == 2


def count_ended_runs(gate: Gate) -> int:
    return sum(kind == "run.finished" for kind, _ in gate.requests)


def test_a_run_opens_with_its_first_use(gate: Gate) -> None:
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="scribe")
    first = runs.run("thread")
    assert runs.run("thread") is first and runs.run("other") is not first
    runs.close()
    assert count_ended_runs(gate) == 2


def test_a_run_ends_when_it_is_idle(gate: Gate) -> None:
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="scribe", idle=0.2)
    first, _ = runs.run("thread"), runs.run("other")
    until(lambda: count_ended_runs(gate) == 2)
    again = runs.run("thread")
    assert again is not first and again.name != first.name  # frames are numbered within a run's name
    assert first.name.startswith("scribe-thread-")
    until(lambda: count_ended_runs(gate) == 3)


def test_a_run_with_a_call_that_runs_or_waits_does_not_end(gate: Gate) -> None:
    result, release = hold_stage(gate, "message")
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="scribe", idle=2 * PATIENCE)
    run = runs.run("thread")
    registry = find_registry(run)
    assert registry is not None
    call = registry.enter("c", "bash", {})
    waiting = threading.Thread(target=lambda: call.ask_now({}))
    waiting.start()
    assert result.wait(PATIENCE)
    runs._idle = 0.1  # only now: it would end before its first call
    threads.get_background_loop().call_soon_threadsafe(runs._end_if_idle, "thread", run)
    time.sleep(0.5)
    assert count_ended_runs(gate) == 0  # asked about
    release.set()
    waiting.join(PATIENCE)
    time.sleep(0.5)
    assert count_ended_runs(gate) == 0  # running
    call.output("done")
    until(lambda: count_ended_runs(gate) == 1)


def test_a_run_that_another_thread_is_opening_can_be_used(gate: Gate) -> None:
    """Parallel first calls of a conversation: the second one gets a run that is open."""
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="scribe")
    is_open, effects = threading.Event(), []
    threads.get_background_loop().call_soon_threadsafe(is_open.wait, PATIENCE)  # holds up the opening

    def use(name: str) -> None:
        call = runs.run("thread").call("bash", name)
        effects.append(call.decision_now({}, seconds=PATIENCE).effect)

    callers = [threading.Thread(target=use, args=(name,)) for name in ("c1", "c2")]
    for caller in callers:
        caller.start()
        until(lambda: "thread" in runs._runs)
    callers[1].join(0.3)
    is_open.set()
    for caller in callers:
        caller.join(PATIENCE)
    runs.close()
    assert effects == ["allow", "allow"]


def test_runs_end_together_when_the_server_hangs(gate: Gate) -> None:
    """Each waits for the last frames to be committed; the waits do not add up."""
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="scribe")
    open_runs = [runs.run(f"thread-{number}") for number in range(3)]
    waiting = threading.Barrier(len(open_runs))
    for run in open_runs:
        assert run.flush(PATIENCE)

        async def flushed() -> None:
            await asyncio.to_thread(waiting.wait, PATIENCE)  # until all of them wait

        run.flushed = flushed  # type: ignore[method-assign]
        run.linger = PATIENCE
    runs.close()
    assert not waiting.broken


async def test_closing_ends_runs_at_once(gate: Gate) -> None:
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="scribe")
    first = await runs.arun("thread")
    assert await runs.arun("thread") is first
    await asyncio.to_thread(runs.close)
    assert count_ended_runs(gate) == 1
    assert await runs.arun("thread") is not first
    await asyncio.to_thread(runs.close)


def test_a_process_that_ends_ends_its_runs(gate: Gate) -> None:
    program = f"""
from toolcards.client import Toolcards
from toolcards.client.framework_support.auto_runs import AutoRuns
AutoRuns(Toolcards({gate.url!r}, "key"), agent="scribe").run("thread")
"""
    completed = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, capture_output=True, text=True)
    assert (completed.returncode, completed.stderr) == (0, "")
    until(lambda: count_ended_runs(gate) == 1)
