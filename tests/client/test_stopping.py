"""An agent that is stopped, forked, or ends while it waits: nothing runs afterwards, and nothing stays open."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cancellation import CancelledOnAnswer
from tests.support.fake_gate import Answer, Gate, frame
from tests.support.held_gate import hold_stage, in_child
from tests.support.server import PATIENCE, until
from toolcards.client import Toolcards, gated
from toolcards.client.plain import Tools

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"bash": "allow", "ask": "ask"}) as running:
        yield running


# ---------------------------------------------------------------- cancelled
@pytest.mark.parametrize(("stage", "tool", "afterwards"), [
    ("decide", "ask", "withdraw"), ("poll", "ask", "withdraw"), ("claim", "bash", "result"),
])  # fmt: skip
async def test_a_task_that_is_cancelled_runs_nothing_and_gives_back_what_it_got(
    gate: Gate, stage: str, tool: str, afterwards: str
) -> None:
    """Also where the answer comes after the task is gone: a question that was opened, a permit that was claimed."""
    result, release = hold_stage(gate, stage)
    ran: list[str] = []

    @gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1", tool=tool)
    async def work() -> None:
        ran.append(tool)

    task = asyncio.create_task(work())
    assert await asyncio.to_thread(result.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    await asyncio.to_thread(until, lambda: afterwards in gate.stages())
    assert ran == []
    if afterwards == "result":
        assert next(body["outcome"] for stage, body in gate.requests if stage == "result") == "aborted"


async def test_over_a_socket_too(gate: Gate) -> None:
    result, release = hold_stage(gate, "message")
    ran: list[str] = []
    async with Toolcards(gate.url, "key").run("r1", linger=1) as run:
        task = asyncio.create_task(Tools({"bash": lambda: ran.append("bash")}, run).acall("bash", {}, "c"))
        assert await asyncio.to_thread(result.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        await asyncio.wait_for(run.flushed(), PATIENCE)
    entries = [frame["error"]["code"] for kind, frame in gate.requests if kind == "tool.output.error"]
    assert (ran, entries) == ([], ["aborted"])


async def test_a_call_whose_answer_comes_together_with_the_cancellation_is_aborted(gate: Gate) -> None:
    """The run lives in another loop, as that of a plain `with` block; the server counts the call as running."""
    with Toolcards(gate.url, "key").run("r1", linger=1) as run:
        call = run.call("bash", "c1")

        async def ask() -> None:
            await CancelledOnAnswer(call.decision({}, seconds=PATIENCE), 1)

        task = asyncio.create_task(ask())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(run.flush, PATIENCE)
        codes = [frame["error"]["code"] for kind, frame in gate.requests if kind == "tool.output.error"]
        assert codes == ["aborted"]


@pytest.mark.parametrize(("tool", "wait"), [("bash", 1), ("ask", 1), ("ask", 2)])
async def test_in_the_loop_of_the_run_such_a_call_is_aborted_too(gate: Gate, tool: str, wait: int) -> None:
    """With the answer, or with the message before it that a person is asked."""
    release = threading.Event()

    def hold_second(stage: str, honest: Any) -> Answer | None:
        if tool == "ask" and stage == "message" and honest["decision"] == "allow":
            release.wait(PATIENCE)
        return None

    gate.tamper = hold_second
    async with Toolcards(gate.url, "key").run("r1", offline=PATIENCE, linger=1) as run:
        call = run.call(tool, "c1")

        async def ask() -> None:
            await CancelledOnAnswer(call.decision({}, seconds=PATIENCE), wait)

        task = asyncio.create_task(ask())
        if wait == 2:
            while not (pending := [*run._pending._by_id.values()]) or not pending[0].is_received.is_set():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)  # from here on it waits for the answer
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(run.flushed(), PATIENCE)
    codes = [frame["error"]["code"] for kind, frame in gate.requests if kind == "tool.output.error"]
    assert codes == ["aborted"]


async def test_arguments_that_change_while_an_approval_is_pending_do_not_run(gate: Gate) -> None:
    """Another task holds the same object: what runs is what was evaluated, or what is reported as edited."""
    result, release = hold_stage(gate, "poll")
    ran: list[Any] = []
    shared = {"paths": ["/tmp"]}

    @gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1", tool="ask")
    async def delete(where: Any) -> None:
        ran.append(where)

    task = asyncio.create_task(delete(shared))
    assert await asyncio.to_thread(result.wait, PATIENCE)
    shared["paths"].append("/")
    release.set()
    await task
    assert ran == [{"paths": ["/tmp"]}]


async def test_nor_in_a_loop_of_ones_own(gate: Gate) -> None:
    result, release = hold_stage(gate, "message")
    ran: list[Any] = []
    args = {"paths": ["/tmp"]}
    async with Toolcards(gate.url, "key").run("r1", linger=1) as run:
        task = asyncio.create_task(Tools({"bash": lambda paths: ran.append(paths)}, run).acall("bash", args, "c"))
        assert await asyncio.to_thread(result.wait, PATIENCE)
        args["paths"].append("/")
        release.set()
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
    assert next(body["outcome"] for stage, body in gate.requests if stage == "result") == "error"
    with Toolcards(gate.url, "key").run("r2", linger=1) as run:
        answer = Tools([ask], run).call("ask", {"path": "/tmp"}, "c")
    assert (answer.state, ran) == ("output-error", [])
    assert [frame["error"]["code"] for kind, frame in gate.requests if kind == "tool.output.error"] == ["invalid_input"]


# ---------------------------------------------------------------- clocks, forks, ends
def test_a_wall_clock_that_jumps_changes_no_patience(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def jump(stage: str, honest: Any) -> Answer | None:
        monkeypatch.setattr(time, "time", lambda: 4e9 if stage == "poll" else 0.0)
        return None

    gate.tamper = jump
    assert Toolcards(gate.url, "key", timeout=PATIENCE).ask("r1", "c1", "ask", {}, seconds=PATIENCE).allowed


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
