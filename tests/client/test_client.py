"""The client as a whole: from plain code, from threads, as one copied folder, and without a server."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support import gating
from tests.support.server import PATIENCE, Server
from toolcards.client import Denied, Toolcards, current

pytestmark = pytest.mark.slow
NOBODY = "http://127.0.0.1:9"


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
