"""Reports that the server did not get at once reach it later, and hold up neither the agent nor its exit."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cancellation import CancelledOnAnswer
from tests.support.fake_gate import AWAY, Answer, Gate, answer_in_order, plain
from tests.support.held_gate import hold_stage
from tests.support.server import PATIENCE, until
from toolcards.client import Toolcards, gated
from toolcards.client.transport import background

NO_ANSWER = Answer([])  # the connection closes without a byte
NOT_FOUND = plain({"error": {"code": "not_found", "message": "Run not found."}}, status="404 Not Found")
REFUSAL = plain({"error": {"code": "gone", "message": "gone"}}, status="410 Gone")


@pytest.fixture(autouse=True)
def _no_reports_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the reports of other tests: each is sent for two minutes to a gate that is gone."""
    monkeypatch.setattr(background, "_unfinished", {})


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"bash": "allow", "ask": "ask"}) as running:
        yield running


@pytest.fixture
def cards(gate: Gate) -> Toolcards:
    return Toolcards(gate.url, "key", timeout=PATIENCE, keep_alive=False)


def outcomes(gate: Gate) -> list[str]:
    return [body["outcome"] for stage, body in gate.requests if stage == "result"]


@pytest.mark.parametrize("failure", [NO_ANSWER, AWAY])
def test_a_result_that_was_lost_is_sent_again(gate: Gate, cards: Toolcards, failure: Answer) -> None:
    gate.tamper = answer_in_order(failure, failure, None, stage="result")
    assert not cards.result("r1", "c1", output="done")
    until(lambda: len(outcomes(gate)) == 3)
    background.wait_for_unfinished(PATIENCE)
    assert outcomes(gate) == ["ok"] * 3


@pytest.mark.parametrize(("refusal", "count"), [(REFUSAL, 2), (NOT_FOUND, 1 + background.UNKNOWN_ATTEMPTS)])
def test_a_result_that_the_server_refuses_is_not_repeated_for_long(
    gate: Gate, cards: Toolcards, refusal: Answer, count: int
) -> None:
    gate.tamper = answer_in_order(NO_ANSWER, refusal, stage="result")
    assert not cards.result("r1", "c1", output="done")
    background.wait_for_unfinished(PATIENCE)
    assert len(outcomes(gate)) == count


def test_a_call_whose_answer_was_lost_is_given_up(gate: Gate, cards: Toolcards) -> None:
    """The server may have opened a question, or issued a permit; no one waits for them."""
    gate.tamper = answer_in_order(NO_ANSWER, stage="decide")
    assert not cards.ask("r1", "c1", "ask", {}).allowed
    until(lambda: outcomes(gate) == ["aborted"])
    assert gate.requests[-1][1] == {"run": "r1", "attempt": 1, "outcome": "aborted", "side_effects": "none"}


def test_a_question_that_never_left_is_not_given_up(cards: Toolcards) -> None:
    without_server = Toolcards("http://127.0.0.1:9", "key")
    assert not without_server.ask("r1", "c1", "ask", {}).allowed
    assert not background._unfinished.get(os.getpid())


def test_a_claim_whose_answers_were_lost_is_given_up(gate: Gate, cards: Toolcards) -> None:
    gate.tamper = answer_in_order(NO_ANSWER, stage="claim")
    assert not cards.ask("r1", "c1", "bash", {}).allowed
    until(lambda: outcomes(gate) == ["aborted"])


def test_a_call_that_is_asked_about_again_is_not_given_up_later(gate: Gate, cards: Toolcards) -> None:
    result, release = hold_stage(gate, "result")
    cards._late.add("/api/v1/calls/other/result", {"outcome": "ok"})
    assert result.wait(PATIENCE)  # from here on, nothing else is sent
    for _ in range(2):
        question = cards.decide("r1", "c1", "ask", {}).question
        assert question is not None
        cards._abort(question)
    cards.decide("r1", "c1", "ask", {})
    release.set()
    background.wait_for_unfinished(PATIENCE)
    assert outcomes(gate) == ["ok"]


@pytest.mark.parametrize(("tool", "wait", "report"), [
    ("bash", 2, "result"), ("bash", 3, "result"), ("ask", 2, "withdraw"), ("ask", 3, "withdraw"), ("ask", 4, "result"),
])  # fmt: skip
async def test_a_task_that_is_cancelled_on_an_answer_gives_up_its_call_and_does_not_block_its_loop(
    gate: Gate, cards: Toolcards, tool: str, wait: int, report: str
) -> None:
    releases, release = [], threading.Event()

    def hold(stage: str, honest: Any) -> None:
        if stage == report:
            releases.append(release.wait(PATIENCE / 2))

    gate.tamper = hold

    @gated(cards, run="r1", tool=tool)
    async def work() -> None:
        raise AssertionError("it ran")

    async def run() -> None:
        await CancelledOnAnswer(work(), wait)

    task = asyncio.create_task(run())
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()  # the loop gets here only if the report does not block it
    await asyncio.to_thread(until, lambda: releases)
    assert (releases, gate.stages().count(report)) == ([True], 1)


# A background job of a shell ignores SIGINT, and so do its children.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
PLAIN = f"""{INTERRUPTIBLE}
from toolcards.client import Toolcards, gated
@gated(Toolcards(timeout=1000), run="r1", tool={{tool!r}})
def work(): pass
work()
"""
ASYNC = f"""{INTERRUPTIBLE}
import asyncio
from toolcards.client import Toolcards, gated
@gated(Toolcards(timeout=1000), run="r1", tool={{tool!r}})
async def work(): pass
asyncio.run(work())
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs POSIX signals")
@pytest.mark.parametrize("program", [PLAIN, ASYNC], ids=["plain", "async"])
@pytest.mark.parametrize(("stage", "tool"), [("decide", "ask"), ("poll", "ask"), ("claim", "bash"), ("result", "bash")])
def test_a_process_that_is_interrupted_ends_although_the_server_hangs(
    gate: Gate, program: str, stage: str, tool: str
) -> None:
    is_asked, release, is_frozen = threading.Event(), threading.Event(), threading.Event()

    def freeze(now: str, honest: Any) -> None:
        if now == stage or is_frozen.is_set():
            is_frozen.set()
            is_asked.set()
            release.wait()

    gate.tamper = freeze
    environment = os.environ | {"TOOLCARDS_URL": gate.url, "TOOLCARDS_AGENT_KEY": "key"}
    agent = subprocess.Popen(
        [sys.executable, "-c", program.format(tool=tool)], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert is_asked.wait(PATIENCE)
        agent.send_signal(signal.SIGINT)
        errors = agent.communicate(timeout=PATIENCE)[1]
    finally:
        agent.kill()
        release.set()
    assert "KeyboardInterrupt" in errors and agent.returncode != 0


@pytest.mark.parametrize(
    ("stage", "tool", "report"),
    [
        ("decide", "ask", "result"),
        ("poll", "ask", "withdraw"),
        ("claim", "bash", "result"),
        ("result", "bash", "result"),
    ],
)
def test_an_interrupted_call_is_given_up(gate: Gate, stage: str, tool: str, report: str) -> None:
    """Only the answer at this stage is held; the server learns how the call ended before the process is gone."""
    is_asked, release = threading.Event(), threading.Event()

    def hold(now: str, honest: Any) -> None:
        if now == stage and not is_asked.is_set():
            is_asked.set()
            release.wait()

    gate.tamper = hold
    environment = os.environ | {"TOOLCARDS_URL": gate.url, "TOOLCARDS_AGENT_KEY": "key"}
    agent = subprocess.Popen(
        [sys.executable, "-c", PLAIN.format(tool=tool)], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        assert is_asked.wait(PATIENCE)
        before = len(gate.requests)
        agent.send_signal(signal.SIGINT)
        until(lambda: report in gate.stages()[before:])
    finally:
        agent.kill()
        agent.wait()
        release.set()
    expected = {"decide": ["aborted"], "poll": [], "claim": ["aborted"], "result": ["ok", "ok"]}
    assert outcomes(gate) == expected[stage]
