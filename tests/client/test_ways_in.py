"""The client from plain code, from threads, from async code, as one copied folder, and without a server."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import gating
from tests.support.server import PATIENCE, Server, until
from toolcards.client import Denied, Toolcards, current, gated
from toolcards.client.plain import Tools

pytestmark = pytest.mark.slow
NOBODY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy("bash", "/command"))
        yield running


@pytest.fixture
def cards(ruled: Server) -> Toolcards:
    return Toolcards(ruled.base, ruled.key, timeout=PATIENCE)


@pytest.fixture
def run() -> str:
    return f"run-{secrets.token_hex(4)}"


def states(server: Server, run: str) -> dict[str, str]:
    return {name: call["state"] for name, call in gating.calls(server, run).items()}


# ---------------------------------------------------------------- without an event loop


def test_a_run_in_plain_code(ruled: Server, cards: Toolcards, run: str) -> None:
    with cards.run(run, agent="scribe") as agent_run:
        assert current() is agent_run
        first = agent_run.call("read_file", "c1")
        first.delta('{"path":"a"}')
        assert first.allowed_now({"path": "a"}) == {"path": "a"}
        first.output({"lines": 3})
        with pytest.raises(Denied, match="Not allowed here"):
            agent_run.call("bash", "c2").allowed_now({"command": "echo forbidden"})
    assert current() is None
    assert states(ruled, run) == {"c1": "output-available", "c2": "output-denied"}
    assert ruled.get(f"/api/v1/runs/{run}")["status"] == "finished"


def test_calls_of_many_threads_share_a_run(ruled: Server, cards: Toolcards, run: str) -> None:
    def work(number: int) -> None:
        call = agent_run.call("read_file", f"c{number}")
        for piece in ('{"path"', ':"a', f'{number}"}}'):
            call.delta(piece)
        call.allowed_now({"path": f"a{number}"})
        call.output(number)

    with cards.run(run) as agent_run:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert states(ruled, run) == {f"c{number}": "output-available" for number in range(20)}
    assert not agent_run.refused


async def test_a_run_of_plain_code_may_be_awaited(ruled: Server, cards: Toolcards, run: str) -> None:
    with cards.run(run) as agent_run:
        assert await agent_run.call("read_file", "c1").allowed({"path": "a"}) == {"path": "a"}


def test_a_result_that_is_too_large_is_shortened(ruled: Server, cards: Toolcards, run: str) -> None:
    with cards.run(run, gate=False) as agent_run:
        call = agent_run.call("read_file", "c1")
        call.available({"path": "a"})
        call.output("x" * 3_000_000)
    card = gating.calls(ruled, run)["c1"]
    assert card["state"] == "output-available" and "3000000 characters" in card["output"]
    assert agent_run.dead is None


# ---------------------------------------------------------------- functions


async def test_an_async_function_waits_for_a_person(ruled: Server, cards: Toolcards, run: str) -> None:
    ran: list[str] = []

    @gated(cards, run=run, tool="bash", seconds=PATIENCE)
    async def execute(command: str) -> str:
        ran.append(command)
        return "done"

    task = asyncio.create_task(execute("echo ask"))
    await asyncio.to_thread(gating.vote, ruled, run, "edit", edited={"command": "echo other"})
    assert (await task, ran) == ("done", ["echo other"])
    with pytest.raises(Denied, match="Not allowed here"):
        await execute("echo forbidden")
    assert sorted(states(ruled, run).values()) == ["output-available", "output-denied"]


async def test_a_cancelled_function_takes_its_question_back(ruled: Server, cards: Toolcards, run: str) -> None:
    @gated(cards, run=run, tool="bash")
    async def execute(command: str) -> str:
        raise AssertionError("it ran")

    task = asyncio.create_task(execute("echo ask"))
    await asyncio.to_thread(gating.waiting, ruled, run)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(until, lambda: set(states(ruled, run).values()) == {"output-error"})


def test_a_functions_error_is_classified(ruled: Server, cards: Toolcards, run: str) -> None:
    @gated(cards, run=run, tool="fetch")
    def fetch(url: str) -> str:
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(ConnectionRefusedError):
        fetch("http://example.invalid")
    (card,) = gating.calls(ruled, run).values()
    assert (card["error"]["code"], card["error"]["retryable"]) == ("connect_failed", True)


# ---------------------------------------------------------------- a loop of one's own


def bash(command: str) -> str:
    if command == "exit 1":
        raise OSError("")
    return f"ran {command}"


async def abash(command: str) -> str:
    return bash(command)


@pytest.mark.parametrize("function", [bash, abash])
async def test_a_loop_of_ones_own(ruled: Server, cards: Toolcards, run: str, function: Any) -> None:
    tools = Tools({"bash": function})
    expected = {
        "c1": ("bash", '{"command": "exit 0"}', "output-available", "ran exit 0"),
        "c2": ("bash", {"command": "exit 1"}, "output-error", "OSError: "),
        "c3": ("bash", {"command": "echo forbidden"}, "output-denied", "Not run: "),
        "c4": ("nothing", {}, "output-error", "there is no tool"),
        "c5": ("bash", '{"command', "output-error", "does not match"),
        "c6": ("bash", {"cmd": 1}, "output-error", "does not match"),
    }
    async with cards.run(run):
        answers = {name: await tools.acall(tool, args, name) for name, (tool, args, *_) in expected.items()}
    assert {name: answer.state for name, answer in answers.items()} == {n: w[2] for n, w in expected.items()}
    assert all(w[3] in answers[name].text for name, w in expected.items()), answers
    assert states(ruled, run) == {name: w[2] for name, w in expected.items()}


def test_a_plain_loop_of_ones_own(ruled: Server, cards: Toolcards, run: str) -> None:
    tools = Tools([bash])
    assert "No Toolcards run is open" in tools.call("bash", {"command": "exit 0"}, "c0").text
    with cards.run(run):
        assert tools.call("bash", {"command": "exit 0"}, "c1").ok
        assert tools.call("bash", {"command": "echo forbidden"}, "c2").state == "output-denied"
    assert states(ruled, run) == {"c1": "output-available", "c2": "output-denied"}


# ---------------------------------------------------------------- alone


def test_without_a_server_a_call_is_denied_soon_and_says_why() -> None:
    began = time.monotonic()
    with Toolcards(NOBODY, "key").run(offline=1) as agent_run, pytest.raises(Denied, match="did not answer in time"):
        agent_run.call("bash").allowed_now({"command": "ls"})
    assert time.monotonic() - began < PATIENCE


def test_without_a_server_a_watched_agent_is_not_slowed() -> None:
    began = time.monotonic()
    with Toolcards(NOBODY, "key").run(gate=False) as agent_run:
        for number in range(2000):
            call = agent_run.call("read_file", f"c{number}")
            call.available({"path": "a"})
            call.output("x")
    assert time.monotonic() - began < PATIENCE


def test_a_run_that_is_away_for_long_keeps_what_counts() -> None:
    run = Toolcards(NOBODY, "key").run(gate=False)
    call = run.call("write_file", "c1")
    for _ in range(400):
        call.delta("x" * 50_000)
    call.output("done")
    assert run._outbox.missed and "tool.output.available" in run._outbox._frames[-1]


def test_the_folder_alone_is_enough(ruled: Server, tmp_path: Path, run: str) -> None:
    here = Path(__file__).parents[2] / "toolcards" / "client"
    shutil.copytree(here, tmp_path / "cards", ignore=shutil.ignore_patterns("__pycache__"))
    program = f"""
from cards import Denied, Toolcards, gated
server = Toolcards({ruled.base!r}, {ruled.key!r})
@gated(server, run={run!r}, tool="bash")
def execute(command): return "ran"
print(execute("exit 0"))
try: execute("echo forbidden")
except Denied as no: print(no)
"""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{program}"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert completed.stdout.splitlines()[0] == "ran" and "Not allowed here." in completed.stdout, completed.stderr
