"""How the ACP proxy maps the gate's answers: an allow covers one exact call; calls that share an id stay apart."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bad_answers import BadAnswer, make_tamper, rows
from tests.support.fake_gate import Answer, Gate
from tests.support.server import PATIENCE, until
from tests.support.silent_server import Hole
from tests.support.tables import loop_over
from toolcards.acp.permission_requests import PermissionRequests, select_option
from toolcards.acp.sessions import Sessions
from toolcards.client import Toolcards, gate_client
from toolcards.client.decisions import approval_wait

OPTIONS = [
    {"optionId": "always", "kind": "allow_always"}, {"optionId": "yes", "kind": "allow_once"},
    {"optionId": "no", "kind": "reject_once"},
]  # fmt: skip


class Agent:
    """One session of an agent behind the proxy's two halves; `voted` is what the dashboard tells in a mirror."""

    def __init__(self, url: str, *, timeout: float = PATIENCE) -> None:
        cards = Toolcards(url, "key", timeout=timeout)
        self.sessions = Sessions(cards, agent="agent", on_vote=lambda value: None)
        self.answers: queue.Queue[tuple[Any, str]] = queue.Queue()
        self.questions = PermissionRequests(
            cards, self.sessions, lambda question, value: self.answers.put((question.id, _option(value)))
        )

    def update(self, update_kind: str, call: str, **fields: Any) -> None:
        update = {"sessionUpdate": update_kind, "toolCallId": call, **fields}
        self.sessions.copy_agent_message({"method": "session/update", "params": {"sessionId": "r1", "update": update}})

    def request(self, number: Any, call: str, **fields: Any) -> dict[str, Any]:
        params = {"sessionId": "r1", "options": OPTIONS, "toolCall": {"toolCallId": call, **fields}}
        return {"id": number, "method": "session/request_permission", "params": params}

    def ask(self, number: Any, call: str, **fields: Any) -> None:
        self.questions.ask(self.request(number, call, **fields))

    def answer(self) -> tuple[Any, str]:
        return self.answers.get(timeout=PATIENCE)


def _option(payload: dict[str, Any]) -> str:
    outcome = payload["outcome"]
    return str(outcome.get("optionId", outcome["outcome"]))


@pytest.fixture
def agent(gate: Gate) -> Iterator[Agent]:
    created = Agent(gate.url)
    yield created
    created.sessions.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"lookup": "allow", "bash": "allow", "wipe": "deny", "ask": "ask"}) as running:
        yield running


# ---------------------------------------------------------------- bad answers
def outcome(gate: Gate, *, timeout: float = PATIENCE) -> str:
    agent = Agent(gate.url, timeout=timeout)
    try:
        agent.update("tool_call", "c1", title="bash", rawInput={"command": "ls"})
        agent.ask(1, "c1")
        return agent.answer()[1]
    finally:
        agent.questions.withdraw_all()
        agent.sessions.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_client, "PAUSE", 0.01)
    monkeypatch.setattr(approval_wait, "POLL", 0.2)
    monkeypatch.setattr(approval_wait, "ASKED_PATIENCE", 0.05)


@pytest.mark.parametrize("effect", ["allow", "ask"])
def test_a_correct_gate_is_trusted(effect: str) -> None:
    with Gate({"bash": effect}) as gate:
        assert outcome(gate) == "yes"


@pytest.mark.slow
@loop_over(("row", "stage"), rows("decide", "poll", "claim"), ids=str)
def test_a_bad_answer_allows_nothing(impatient: None, row: BadAnswer, stage: str) -> None:
    with Gate({"bash": "ask" if stage == "poll" else "allow"}, tamper=make_tamper(row, stage)) as gate:
        assert outcome(gate) == "no" and stage in gate.stages()


@pytest.mark.slow
@pytest.mark.parametrize(("row", "stage"), rows("decide", "poll", "claim", sooner=True), ids=str)
def test_an_answer_that_does_not_end_allows_nothing_and_ends(impatient: None, row: BadAnswer, stage: str) -> None:
    with Gate({"bash": "ask" if stage == "poll" else "allow"}, tamper=make_tamper(row, stage)) as gate:
        assert outcome(gate, timeout=0.4) == "no"


def test_without_a_server_nothing_is_allowed() -> None:
    agent = Agent("http://127.0.0.1:9", timeout=1)
    agent.ask(1, "c1", title="bash")
    assert agent.answer()[1] == "no"
    agent.sessions.close()


@pytest.mark.slow
def test_a_server_that_never_answers_allows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcards.acp.permission_requests.FLUSH", 0.3)
    with Hole() as hole:
        agent = Agent(hole.url, timeout=0.3)
        agent.ask(1, "c1", title="bash")
        assert agent.answer()[1] == "no" and until(lambda: hole.swallowed)
        agent.sessions.close()


def test_an_edit_cannot_be_carried_and_is_reported_as_not_run(agent: Agent, gate: Gate) -> None:
    gate.edited = {"command": "ls -l"}
    agent.ask(1, "c1", title="ask", rawInput={"command": "ls"})
    assert agent.answer()[1] == "no"
    until(lambda: "result" in gate.stages())
    assert next(body["outcome"] for stage, body in gate.requests if stage == "result") == "aborted"


# ---------------------------------------------------------------- one id for several calls
def list_calls(gate: Gate) -> list[tuple[str, Any, int]]:
    return [(call.tool, call.args, call.attempt) for call in gate.calls]


def test_an_id_that_comes_again_is_judged_as_what_it_is_now(agent: Agent, gate: Gate) -> None:
    """Neither the tool nor a part of the input of the call that had the id before."""
    agent.update("tool_call", "1", title="lookup", rawInput={"key": "a", "more": True})
    agent.ask(1, "1")
    assert agent.answer() == (1, "yes")
    agent.update("tool_call_update", "1", status="completed")
    agent.update("tool_call", "1", title="wipe", rawInput={"key": "b"})
    agent.ask(2, "1")
    assert agent.answer() == (2, "no")
    assert list_calls(gate) == [("lookup", {"key": "a", "more": True}, 1), ("wipe", {"key": "b"}, 2)]


def test_a_request_about_a_call_that_has_ended_is_about_another(agent: Agent, gate: Gate) -> None:
    agent.update("tool_call", "1", title="lookup", rawInput={"key": "a"})
    agent.update("tool_call_update", "1", status="failed")
    agent.ask(1, "1", title="wipe", rawInput={"key": "b"})
    assert agent.answer() == (1, "no") and list_calls(gate) == [("wipe", {"key": "b"}, 1)]


def test_two_open_calls_of_one_id_are_refused(agent: Agent, gate: Gate) -> None:
    agent.update("tool_call", "1", title="lookup", rawInput={})
    agent.update("tool_call", "1", title="wipe", rawInput={})
    agent.ask(1, "1")
    assert agent.answer() == (1, "no") and list_calls(gate) == []


def test_what_the_request_itself_says_is_what_is_judged(agent: Agent, gate: Gate) -> None:
    agent.update("tool_call", "1", title="lookup", rawInput={"key": "a", "more": True})
    agent.ask(1, "1", name="wipe", rawInput={"key": "b"})
    assert agent.answer() == (1, "no") and list_calls(gate) == [("wipe", {"key": "b"}, 1)]


def test_a_second_request_with_the_id_of_an_open_one_is_refused(agent: Agent, gate: Gate) -> None:
    refusal = threading.Event()

    def hold(stage: str, honest: Any) -> Answer | None:
        if stage == "poll":
            refusal.wait(PATIENCE)
        return None

    gate.tamper = hold
    agent.ask(7, "1", title="ask")
    agent.ask(7, "2", title="lookup")
    assert agent.answer() == (7, "no")
    refusal.set()
    assert agent.answer() == (7, "yes")
    assert [tool for tool, _, _ in list_calls(gate)] == ["ask"]


def test_a_request_without_a_call_is_refused(agent: Agent, gate: Gate) -> None:
    agent.ask(1, "", title="lookup")
    assert agent.answer() == (1, "no") and list_calls(gate) == []


@pytest.mark.parametrize(
    "options", [[], [7], [{}], [{"kind": []}], [{"kind": "allow_once", "optionId": 7}], [None, "x"]]
)
def test_odd_options_are_no_yes(options: list[Any]) -> None:
    assert select_option(options, True) == {"outcome": {"outcome": "cancelled"}}


def test_a_request_without_an_answer_of_the_gate_is_given_up() -> None:
    """The gate may have opened a question, which no one waits for."""
    with Gate({"bash": "ask"}) as gate:
        agent = Agent(gate.url)
        gate.tamper = lambda stage, honest: Answer([]) if stage == "decide" else None
        agent.update("tool_call", "c1", title="bash", rawInput={"command": "ls"})
        agent.ask(1, "c1")
        assert agent.answer() == (1, "no")
        until(lambda: "result" in gate.stages())
        report = next(body for stage, body in gate.requests if stage == "result")
        assert (report["outcome"], report["side_effects"]) == ("aborted", "none")
