"""An agent whose line swallows, breaks or closes, and whose server is killed, hears each answer of a person once.

The model: an answer arrives when it is given while the line is good, or else on the next good line, and then never
again unless the agent asks again. A frame that the agent was not acknowledged is sent again, as clients do.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.support import gating
from tests.support.server import PATIENCE, Server, until
from tests.support.swallowing_line import SwallowingLine
from tests.support.voter import Voter

QUESTION = {"n": 1, "type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "echo ask"}}


class Agent:
    """A gating agent that keeps what it hears, and has at most one line that it uses."""

    def __init__(self, server: Server, run: str) -> None:
        self._server, self._run, self._number = server, run, 1
        self.decisions: list[str] = []  # the ids of the final decisions about the question
        self.is_connected = False

    def open(self, *, asks: bool) -> None:
        """Connect, and with `asks` send the question, which waits until it is acknowledged."""
        self._line = SwallowingLine(self._server.base)
        url = f"{self._server.base.replace('http', 'ws', 1)}/ws/agent/?protocol=native&run={self._run}"
        headers = {"Authorization": f"Bearer {self._server.key}"}
        self._socket = connect(url, sock=self._line.socket, additional_headers=headers, compression=None).__enter__()
        self._acked = threading.Semaphore(0)
        self.is_connected = True
        threading.Thread(target=self._listen, args=(self._socket, self._acked), daemon=True).start()
        if asks:
            self._say(QUESTION)

    def _say(self, frame: dict[str, Any]) -> None:
        self._socket.send(json.dumps(frame))
        assert self._acked.acquire(timeout=PATIENCE)

    def _listen(self, socket: Any, acked: threading.Semaphore) -> None:
        with contextlib.suppress(ConnectionClosed):
            for text in socket:
                message = json.loads(text)
                if message["type"] == "ack":
                    acked.release()
                elif message["type"] == "decision" and message["decision"] != "ask":
                    self.decisions.append(message["decision_id"])

    def settle(self) -> None:
        """Wait until the server has committed what it knows of this line, receipts too."""
        assert self._socket.ping().wait(PATIENCE)
        self._number += 1
        self._say({"n": self._number, "type": "text.delta", "text": "."})

    def lose(self, how: str) -> None:
        """Lose the line: it swallows everything and stays open, breaks, or is closed."""
        if self.is_connected:
            self.is_connected = False
            {"swallow": self._line.swallow, "break": self._line.cut, "close": self._socket.close}[how]()


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("swallowed"), server=request.param) as running:
        gating.activate(running, gating.policy("bash", "/command"))
        yield running


LOSSES = st.sampled_from(["swallow", "break", "close"])
STEPS = st.lists(LOSSES | st.sampled_from(["reconnect", "reconnect and ask", "kill"]), max_size=4)


@pytest.mark.thorough
@settings(max_examples=15, deadline=None)
@given(before=STEPS, after=STEPS, is_approved=st.booleans())
def test_an_agent_hears_what_it_did_not_receive_once(
    server: Server, before: list[str], after: list[str], is_approved: bool
) -> None:
    follow_model(server, before, after, "approve" if is_approved else "deny")


@pytest.mark.slow
@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_swallowed_answer_comes_on_the_next_line_and_never_again(server: Server, decision: str) -> None:
    follow_model(server, ["swallow"], ["reconnect", "close", "reconnect", "kill", "reconnect"], decision)


@pytest.mark.slow
def test_an_answer_that_a_killed_server_sent_into_a_dead_line_comes_from_the_next_one(server: Server) -> None:
    follow_model(server, ["swallow"], ["kill", "reconnect", "break", "reconnect"], "approve")


def follow_model(server: Server, before: list[str], after: list[str], decision: str) -> None:
    run = f"run-{secrets.token_hex(4)}"
    agent, voter = Agent(server, run), Voter(server)
    agent.open(asks=True)
    for step in before:
        take(step, server, agent)
    voter.vote(run, decision)
    for step in [*after, "reconnect"]:
        expect_answer(agent)
        take(step, server, agent)
    expect_answer(agent)
    agent.settle()
    assert len(agent.decisions) == 1, agent.decisions
    agent.lose("close")


def expect_answer(agent: Agent) -> None:
    """Wait for the answer, which comes on the first good line."""
    if agent.is_connected:
        until(lambda: agent.decisions)
        agent.settle()


def take(step: str, server: Server, agent: Agent) -> None:
    if step == "kill":
        server.kill()
        agent.lose("break")
        server.start()
    elif step.startswith("reconnect"):
        if not agent.is_connected:
            agent.open(asks=step == "reconnect and ask" and not agent.decisions)
    else:
        agent.lose(step)
