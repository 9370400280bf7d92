"""An agent that is stopped, forked, or ends while it waits: nothing runs afterwards, and nothing stays open."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Answer, Gate, frame
from tests.support.server import PATIENCE, until
from toolcards.client import Toolcards, gated
from toolcards.client.framework_support.auto_runs import AutoRuns
from toolcards.client.framework_support.call_registry import find_registry
from toolcards.client.plain import Tools

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"bash": "allow", "ask": "ask"}) as running:
        yield running


def held(gate: Gate, stage: str) -> tuple[threading.Event, threading.Event]:
    """Hold the answer of this stage: return what says that it was asked for, and what lets it go."""
    value, go = threading.Event(), threading.Event()

    def tamper(now: str, honest: Any) -> Answer | None:
        if now == stage:
            value.set()
            go.wait(PATIENCE)
        return None

    gate.tamper = tamper
    return value, go


# ---------------------------------------------------------------- cancelled


@pytest.mark.parametrize(("stage", "tool", "afterwards"), [
    ("decide", "ask", "withdraw"), ("poll", "ask", "withdraw"), ("claim", "bash", "result"),
])  # fmt: skip
async def test_a_task_that_is_cancelled_runs_nothing_and_gives_back_what_it_got(
    gate: Gate, stage: str, tool: str, afterwards: str
) -> None:
    """Also where the answer comes after the task is gone: a question that was opened, a permit that was claimed."""
    result, go = held(gate, stage)
    ran: list[str] = []

    @gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1", tool=tool)
    async def work() -> None:
        ran.append(tool)

    task = asyncio.create_task(work())
    assert await asyncio.to_thread(result.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await asyncio.to_thread(until, lambda: afterwards in gate.stages())
    assert ran == []
    if afterwards == "result":
        assert next(body["outcome"] for stage, body in gate.asked if stage == "result") == "aborted"


async def test_over_a_socket_too(gate: Gate) -> None:
    result, go = held(gate, "message")
    ran: list[str] = []
    async with Toolcards(gate.url, "key").run("r1", linger=1) as run:
        task = asyncio.create_task(Tools({"bash": lambda: ran.append("bash")}, run).acall("bash", {}, "c"))
        assert await asyncio.to_thread(result.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await asyncio.wait_for(run.flushed(), PATIENCE)
    entries = [frame["error"]["code"] for kind, frame in gate.asked if kind == "tool.output.error"]
    assert (ran, entries) == ([], ["aborted"])


async def test_arguments_that_change_while_an_approval_is_pending_do_not_run(gate: Gate) -> None:
    """Another task holds the same object: what runs is what was evaluated, or what is reported as edited."""
    result, go = held(gate, "poll")
    ran: list[Any] = []
    shared = {"paths": ["/tmp"]}

    @gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1", tool="ask")
    async def delete(where: Any) -> None:
        ran.append(where)

    task = asyncio.create_task(delete(shared))
    assert await asyncio.to_thread(result.wait, PATIENCE)
    shared["paths"].append("/")
    go.set()
    await task
    assert ran == [{"paths": ["/tmp"]}]


async def test_nor_in_a_loop_of_ones_own(gate: Gate) -> None:
    result, go = held(gate, "message")
    ran: list[Any] = []
    args = {"paths": ["/tmp"]}
    async with Toolcards(gate.url, "key").run("r1", linger=1) as run:
        task = asyncio.create_task(Tools({"bash": lambda paths: ran.append(paths)}, run).acall("bash", args, "c"))
        assert await asyncio.to_thread(result.wait, PATIENCE)
        args["paths"].append("/")
        go.set()
        await task
    assert ran == [["/tmp"]]


# ---------------------------------------------------------------- edits


@pytest.mark.parametrize("edited", [{"rm": True}, ["/"], "/", None, {"path": "/", "more": 1}])
def test_an_edit_that_the_function_does_not_take_runs_nothing(gate: Gate, edited: Any) -> None:
    gate.edited = edited if edited is not None else {"path": None, "x": 0}
    ran: list[Any] = []

    def ask(path: str) -> None:
        ran.append(path)

    with pytest.raises(TypeError):
        gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1")(ask)("/tmp")
    assert next(body["outcome"] for stage, body in gate.asked if stage == "result") == "error"
    with Toolcards(gate.url, "key").run("r2", linger=1) as run:
        answer = Tools([ask], run).call("ask", {"path": "/tmp"}, "c")
    assert (answer.state, ran) == ("output-error", [])
    assert [frame["error"]["code"] for kind, frame in gate.asked if kind == "tool.output.error"] == ["invalid_input"]


# ---------------------------------------------------------------- clocks, forks, ends


def test_a_wall_clock_that_jumps_changes_no_patience(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def jump(stage: str, honest: Any) -> Answer | None:
        monkeypatch.setattr(time, "time", lambda: 4e9 if stage == "poll" else 0.0)
        return None

    gate.tamper = jump
    assert Toolcards(gate.url, "key", timeout=PATIENCE).ask("r1", "c1", "ask", {}, seconds=PATIENCE).allowed


def in_child(work: Any) -> Any:
    """Return what the work returns in a forked process."""
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    child = context.Process(target=lambda: results.put(work()))
    child.start()
    try:
        return results.get(timeout=PATIENCE)
    finally:
        child.join(PATIENCE)


@forks
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_run_of_the_parent_denies_in_a_forked_child_and_continues_in_the_parent(gate: Gate) -> None:
    ran: list[int] = []
    with Toolcards(gate.url, "key").run("r1", offline=PATIENCE, linger=1) as run:
        tools = Tools({"bash": lambda: ran.append(1)}, run)
        assert tools.call("bash", {}, "before").ok

        def child() -> Any:
            calls = [tools.call("bash", {}, "sync").text, asyncio.run(tools.acall("bash", {}, "async")).text]
            return calls, len(ran)

        texts, count = in_child(child)
        assert count == 1 and all("another process" in text for text in texts), texts
        assert tools.call("bash", {}, "after").ok
    assert {call.call_id for call in gate.calls} == {"before", "after"}


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


# ---------------------------------------------------------------- runs that open by themselves


def ended(gate: Gate) -> int:
    return sum(kind == "run.finished" for kind, _ in gate.asked)


def test_a_run_opens_with_its_first_use_and_ends_when_it_is_idle(gate: Gate) -> None:
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="scribe", idle=0.2)
    first = runs.run("thread")
    assert runs.run("thread") is first and runs.run("other") is not first
    until(lambda: ended(gate) == 2)
    again = runs.run("thread")
    assert again is not first and again.name != first.name  # frames are numbered within a run's name
    assert first.name.startswith("scribe-thread-")
    until(lambda: ended(gate) == 3)


def test_a_run_with_a_call_that_runs_or_waits_does_not_end(gate: Gate) -> None:
    result, go = held(gate, "message")
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="scribe", idle=0.1)
    registry = find_registry(runs.run("thread"))
    assert registry is not None
    call = registry.enter("c", "bash", {})
    waiting = threading.Thread(target=lambda: call.ask_now({}))
    waiting.start()
    assert result.wait(PATIENCE)
    time.sleep(0.5)
    assert ended(gate) == 0  # asked about
    go.set()
    waiting.join(PATIENCE)
    time.sleep(0.5)
    assert ended(gate) == 0  # running
    call.output("done")
    until(lambda: ended(gate) == 1)


async def test_closing_ends_runs_at_once(gate: Gate) -> None:
    runs = AutoRuns(Toolcards(gate.url, "key"), agent="scribe")
    first = await runs.arun("thread")
    assert await runs.arun("thread") is first
    await asyncio.to_thread(runs.close)
    assert ended(gate) == 1
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
    until(lambda: ended(gate) == 1)


def test_two_answers_count_as_the_first(gate: Gate) -> None:
    """A deny, then an allow, on one socket and one question."""

    def twice(stage: str, honest: Any) -> Answer | None:
        if stage != "message":
            return None
        deny = frame(json.dumps(honest | {"decision": "deny"}).encode())
        return Answer([deny, frame(json.dumps(honest).encode())], close=False)

    gate.tamper = twice
    with Toolcards(gate.url, "key").run("r1", linger=1) as run:
        assert not run.call("bash", "c").decision_now({}, seconds=PATIENCE).allowed
