"""The client against a real server: asked, answered, claimed, told, and through a killed server."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import PATIENCE, ROOT, Server, until
from tests.support.voter import Voter
from toolcards.client import Denied, Toolcards, gated

pytestmark = pytest.mark.slow
PUSH = {"command": "git push"}


@pytest.fixture
def cards(server: Server) -> Toolcards:
    return Toolcards(server.base, server.key, timeout=PATIENCE)


@pytest.fixture
def run() -> str:
    return f"run-{secrets.token_hex(4)}"


@pytest.fixture
def voter(server: Server) -> Voter:
    return Voter(server)


def calls(server: Server, run: str) -> dict[str, Any]:
    return {call["call_id"]: call for call in server.get(f"/api/v1/runs/{run}/calls")["calls"]}


def test_an_allowed_call_is_claimed_and_its_result_told(server: Server, cards: Toolcards, run: str) -> None:
    decision = cards.ask(run, "c1", "read_file", {"path": "a.txt"})
    assert decision.allowed and decision.args == {"path": "a.txt"}
    assert cards.result(run, "c1", output={"lines": 3})
    call = calls(server, run)["c1"]
    assert (call["state"], call["output"], call["anomalies"]) == ("output-available", {"lines": 3}, [])


def test_a_permit_is_good_for_one_execution(cards: Toolcards, run: str) -> None:
    decision = cards.decide(run, "c1", "read_file", {"path": "a.txt"})
    assert cards.claim(decision).allowed
    assert not cards.claim(decision).allowed


@pytest.mark.parametrize(("answer", "effect"), [("approve", "allow"), ("deny", "deny")])
def test_a_person_answers_the_long_poll(cards: Toolcards, voter: Voter, run: str, answer: str, effect: str) -> None:
    decision = cards.decide(run, "c1", "bash", PUSH, place=run)
    assert decision.waiting
    threading.Timer(0.3, voter.vote, (run, answer)).start()
    assert cards.wait(decision, seconds=PATIENCE).effect == effect


def test_a_gated_function_waits_for_a_person(server: Server, cards: Toolcards, voter: Voter, run: str) -> None:
    ran = []

    @gated(cards, run=run, tool="bash", seconds=PATIENCE)
    def execute(command: str, *, cwd: str = ".") -> str:
        ran.append((command, cwd))
        return "pushed"

    threading.Timer(0.3, voter.vote, (run, "approve")).start()
    assert execute("git push") == "pushed"
    assert ran == [("git push", ".")]
    threading.Timer(0.3, voter.vote, (run, "deny")).start()
    with pytest.raises(Denied):
        execute("git push --force")
    assert len(ran) == 1
    states = sorted(call["state"] for call in calls(server, run).values())
    assert states == ["output-available", "output-denied"]


async def test_a_run_is_shown_and_gated_over_one_socket(
    server: Server, cards: Toolcards, voter: Voter, run: str
) -> None:
    async with asyncio.timeout(2 * PATIENCE), cards.run(run, agent="scribe", title="Notes") as agent_run:
        first = agent_run.call("read_file", "c1")
        first.delta('{"path":')
        first.delta('"a.txt"}')
        assert await first.allowed({"path": "a.txt"}) == {"path": "a.txt"}
        first.partial("one line")
        first.output("three lines")
        second = agent_run.call("bash", "c2")
        question = asyncio.create_task(second.allowed(PUSH))
        await asyncio.to_thread(voter.vote, run, "approve")
        assert await question == PUSH
        second.error("", retryable=True)
        third = agent_run.call("bash", "c3")
        question = asyncio.create_task(third.allowed(PUSH))
        await asyncio.to_thread(voter.vote, run, "deny", "not today")
        with pytest.raises(Denied, match="not today"):
            await question
    result = calls(server, run)
    states = {name: call["state"] for name, call in result.items()}
    assert states == {"c1": "output-available", "c2": "output-error", "c3": "output-denied"}
    assert not agent_run.refused and not any(call["anomalies"] for call in result.values())
    run_answer = server.get(f"/api/v1/runs/{run}")
    assert (run_answer["status"], run_answer["agent"], run_answer["title"]) == ("finished", "scribe", "Notes")


async def test_a_flood_is_written_whole(server: Server, cards: Toolcards, run: str) -> None:
    pieces = [f"{number} " for number in range(5000)]
    async with asyncio.timeout(2 * PATIENCE), cards.run(run, gate=False) as agent_run:
        call = agent_run.call("write_file", "c1")
        for piece in pieces:
            call.delta(piece)
        await agent_run.flushed()
        assert calls(server, run)["c1"]["input_text"] == "".join(pieces)


async def test_a_killed_server_costs_nothing(tmp_path: Path, run: str) -> None:
    with Server(tmp_path) as server:
        away = Toolcards(server.base, server.key).run(run, offline=3 * PATIENCE)
        async with asyncio.timeout(4 * PATIENCE), away as agent_run:
            call = agent_run.call("write_file", "c1")
            question = asyncio.create_task(agent_run.call("bash", "c2").allowed(PUSH))
            await asyncio.to_thread(Voter(server).waiting, run)  # both calls are committed
            for number in range(300):
                call.delta(f"{number} ")
            await asyncio.sleep(0.01)
            await asyncio.to_thread(server.kill)
            for number in range(300, 600):
                call.delta(f"{number} ")
            await asyncio.to_thread(server.start)
            await agent_run.flushed()
            await asyncio.to_thread(Voter(server).vote, run, "approve")
            assert await question == PUSH
            text = calls(server, run)["c1"]["input_text"]
        assert text == "".join(f"{number} " for number in range(600))


async def test_a_wrong_key_denies_and_says_so(server: Server, run: str) -> None:
    cards = Toolcards(server.base, "tck_wrong")
    assert not cards.decide(run, "c1", "bash", {}).allowed
    async with asyncio.timeout(PATIENCE), cards.run(run) as agent_run:
        with pytest.raises(Denied):
            await agent_run.call("bash").allowed({})
    assert agent_run.dead is not None


# ---------------------------------------------------------------- a run's name used again


def run_two_calls(cards: Toolcards, run: str) -> list[Any]:
    """Report and gate one call, as each agent run of a conversation does."""
    with cards.run(run, agent="nightly", offline=PATIENCE, linger=PATIENCE) as stream:
        watched_call = stream.call("read_file")
        watched_call.available({"path": "watched.txt"})
        watched_call.output("watched")
        call = stream.call("read_file")
        decision = call.decision_now({"path": "a.txt"}, seconds=PATIENCE)
        if decision.allowed:
            call.output({"lines": 3})
        return [watched_call.id, call.id, decision]


def test_a_name_that_the_next_agent_run_uses_again_loses_no_call(server: Server, cards: Toolcards, run: str) -> None:
    for _ in range(2):
        watched_call, gated_call, decision = run_two_calls(cards, run)
        assert decision.allowed, decision.text
        assert {calls(server, run)[call]["state"] for call in (watched_call, gated_call)} == {"output-available"}
    assert len(calls(server, run)) == 4


def test_two_agent_runs_of_one_name_at_once_lose_no_call(server: Server, cards: Toolcards, run: str) -> None:
    with cards.run(run, agent="left") as left_run, cards.run(run, agent="right") as right_run:
        for index in range(20):
            for stream in (left_run, right_run):
                call = stream.call("read_file", f"{stream.agent}-{index}")
                call.available({"path": "a.txt"})
                call.output("read")
    states = [call["state"] for call in calls(server, run).values()]
    assert states == ["output-available"] * 40


# ---------------------------------------------------------------- calls outside any run

PROGRAM = """
from toolcards.client import Toolcards, gated

class ToolError(Exception):
    pass

cards = Toolcards(timeout=60)

@gated(cards, tool="bash", seconds=0.2, denial=str)
def returned(command: str) -> str:
    return "ran"

@gated(cards, tool="bash", seconds=0.2, denial=ToolError)
def raised(command: str) -> str:
    return "ran"

@gated(cards, tool="read_file", {agent})
def read(path: str) -> str:
    return "ran"

print(read("a.txt"))
print(returned("git push"))
try:
    raised("git push")
except ToolError as error:
    print(f"ToolError: {{error}}")
"""


@pytest.mark.parametrize(("option", "agent"), [("", "tidy_up"), ('agent="scribe"', "scribe")])
def test_calls_outside_any_run_have_an_agent_and_a_run_that_ends_with_the_process(
    server: Server, tmp_path: Path, option: str, agent: str
) -> None:
    program = tmp_path / "tidy_up.py"
    program.write_text(PROGRAM.format(agent=option))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TOOLCARDS_URL": server.base, "TOOLCARDS_AGENT_KEY": server.key}
    process = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, timeout=PATIENCE)
    allowed, return_line, raised = process.stdout.splitlines()
    assert (allowed, return_line) == ("ran", "No one answered in time.")
    assert raised == "ToolError: No one answered in time."
    run = next(run for run in server.get("/api/v1/runs?limit=50")["runs"] if run["run"].startswith("functions-"))
    assert (run["agent"], run["status"]) == (agent, "finished")


# ---------------------------------------------------------------- sizes, time limits, edits


def test_a_long_result_is_cut_with_a_mark_and_the_run_continues(server: Server, cards: Toolcards, run: str) -> None:
    outputs: list[Any] = ["x" * (2 << 20), "я" * 390_000, {"text": "😀" * 390_000}, "short"]
    with cards.run(run, agent="scribe") as stream:
        for index, output in enumerate(outputs):
            call = stream.call("read_file", f"c{index}")
            call.available({"path": "a.txt"})
            call.output(output)
        stream.text("x" * (2 << 20))
        stream.call("read_file", "after").available({"path": "a.txt"})
    call_cards = calls(server, run)
    assert [call_cards[f"c{index}"]["state"] for index in range(4)] == ["output-available"] * 4
    assert all("characters in all)" in call_cards[f"c{index}"]["output"] for index in range(3))
    assert call_cards["c3"]["output"] == "short" and "after" in call_cards and stream.dead is None


def test_a_long_result_over_http_is_cut_with_a_mark(server: Server, cards: Toolcards, run: str) -> None:
    assert cards.ask(run, "c1", "read_file", {"path": "a.txt"}).allowed
    assert cards.result(run, "c1", output="x" * (9 << 20))
    call = calls(server, run)["c1"]
    assert call["state"] == "output-available" and "characters in all)" in call["output"]


@pytest.mark.parametrize("size", [300_000, 1_300_000])
def test_arguments_that_are_too_long_are_denied_at_once(cards: Toolcards, run: str, size: int) -> None:
    args, began = {"path": "x" * size}, time.monotonic()
    with cards.run(run, agent="scribe", offline=3 * PATIENCE) as stream:
        by_socket = stream.call("read_file").decision_now(args)
        assert stream.call("read_file").decision_now({"path": "a.txt"}).allowed
    by_http = cards.ask(run, "http", "read_file", args)
    for decision in (by_socket, by_http):
        assert (decision.effect, decision.code) == ("deny", "invalid_args")
        assert "more than" in decision.text or "at most" in decision.text
    assert time.monotonic() - began < 2 * PATIENCE


def test_a_frame_beyond_the_servers_own_limit_ends_no_run(tmp_path: Path) -> None:
    with Server(tmp_path, max_frame=100_000) as small:
        cards = Toolcards(small.base, small.key, timeout=PATIENCE)
        with cards.run("small", agent="scribe") as stream:
            long = stream.call("read_file", "long")
            long.available({"path": "a.txt"})
            long.output("x" * 200_000)
            refused_decision = stream.call("read_file", "refused").decision_now({"path": "x" * 200_000})
            assert stream.call("read_file", "after").decision_now({"path": "a.txt"}).allowed
        assert (refused_decision.code, stream.dead) == ("invalid_args", None)
        assert {"long", "after"} <= calls(small, "small").keys()


def test_a_time_limit_of_the_agent_reads_the_same_in_every_helper(server: Server, cards: Toolcards, run: str) -> None:
    @gated(cards, run=run, tool="bash", seconds=0.3)
    def execute(command: str) -> str:
        return "ran"

    by_http = cards.ask(run, "http", "bash", PUSH, seconds=0.3)
    by_async = asyncio.run(cards.aask(run, "async", "bash", PUSH, seconds=0.3))
    with cards.run(run, agent="scribe") as stream:
        assert stream.flush(PATIENCE)
        by_socket = stream.call("bash", "socket").decision_now(PUSH, seconds=5)  # to reach the server, and to wait
    with pytest.raises(Denied) as denied:
        execute("git push")
    for decision in (by_http, by_async, by_socket, denied.value.decision):
        assert (decision.code, decision.text) == ("approval_expired", "No one answered in time.")
    call_cards = calls(server, run).values()
    assert [(call["state"], call["approval"]["state"]) for call in call_cards] == [("output-denied", "cancelled")] * 4


def test_an_edit_that_does_not_fit_the_function_is_not_run(
    server: Server, cards: Toolcards, voter: Voter, run: str
) -> None:
    ran = []

    @gated(cards, run=run, tool="bash", seconds=PATIENCE)
    def refund(cents: int, note: str | None = None) -> str:
        ran.append(cents)
        return "refunded"

    def edit(args: dict[str, Any]) -> None:
        call = voter.waiting(run)
        fields = {"rev": str(call["rev"]), "args_sha256": call["approval"]["args_sha256"]}
        path = f"/approvals/{call['approval']['id']}/vote"
        voter.post(path, page="/approvals/", decision="edit", edited_args=json.dumps(args), **fields)

    threading.Timer(0.3, edit, ({"cents": "lots", "note": None},)).start()
    with pytest.raises(TypeError, match="/cents: it must be integer"):
        refund(500)
    threading.Timer(0.3, edit, ({"cents": 5, "note": "less"},)).start()
    assert refund(500) == "refunded" and ran == [5]
    error = next(call for call in calls(server, run).values() if call["state"] == "output-error")["error"]
    assert error["code"] == "invalid_input"


# ---------------------------------------------------------------- a blip while a person is asked

GRACE = 1  # seconds, in place of 30


def break_off_body(server: Server, run: str) -> None:
    """Send half a body that watches the run, as a mirror does, and close the connection."""
    frames = [
        {"type": "run.started", "agent": "scribe"},
        {"type": "tool.input.available", "call_id": "c1", "tool": "bash", "input": PUSH},
    ]
    body = "".join(f"{json.dumps(frame)}\n" for frame in frames).encode()
    head = (
        f"POST /api/v1/ingest?protocol=native&run={run}&mode=observe HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {server.key}\r\nContent-Type: application/x-ndjson\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", int(server.base.rpartition(":")[2]))) as mirror:
        mirror.sendall(head.encode() + f"{len(body):x}\r\n".encode() + body + b"\r\n")
        until(lambda: "c1" in calls(server, run) if server.request("GET", f"/api/v1/runs/{run}")[0] == 200 else False)


@pytest.mark.parametrize("blip", ["a body breaks off", "the server restarts", "the server is killed"])
def test_a_question_outlives_a_blip_while_its_agent_polls(tmp_path: Path, blip: str) -> None:
    with Server(tmp_path, grace=GRACE) as server:
        cards = Toolcards(server.base, server.key, timeout=PATIENCE)
        if blip == "a body breaks off":
            break_off_body(server, "run")
        first_decision = cards.decide("run", "c1", "bash", PUSH)
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(cards.wait, first_decision, seconds=3 * PATIENCE)
            if blip != "a body breaks off":
                (server.stop if "restarts" in blip else server.kill)()
                server.start()
            time.sleep(5 * GRACE)
            Voter(server).vote("run", "approve")
            decision = waiting.result()
        assert decision.allowed, decision.text
        claim = cards.claim(decision)
        assert claim.allowed and cards.result("run", "c1", output="pushed")
        call = calls(server, "run")["c1"]
        assert (call["state"], call["anomalies"]) == ("output-available", [])


@pytest.mark.parametrize("blip", ["restarts", "killed"])
def test_a_question_on_a_socket_outlives_a_blip(tmp_path: Path, blip: str) -> None:
    with Server(tmp_path, grace=GRACE) as server:
        cards = Toolcards(server.base, server.key, timeout=PATIENCE)
        with cards.run("run", agent="scribe") as stream, ThreadPoolExecutor() as pool:
            call = stream.call("bash", "c1")
            deciding = pool.submit(call.decision_now, PUSH, seconds=3 * PATIENCE)
            Voter(server).waiting("run")
            (server.stop if blip == "restarts" else server.kill)()
            time.sleep(2 * GRACE)
            server.start()
            time.sleep(5 * GRACE)
            Voter(server).vote("run", "approve")
            assert deciding.result().allowed
            call.output("pushed")
        card = calls(server, "run")["c1"]
        assert (card["state"], card["anomalies"]) == ("output-available", [])
