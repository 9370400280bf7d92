"""One id for several calls: each is asked about by itself, and none runs on what was said of another.

Models and providers use call ids again: after a call's end, for parallel calls, and in sub-agents. `lookup` is allowed
here, `wipe` is denied.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE
from toolcards.client import Denied, Run, Toolcards, gated
from toolcards.client.plain import Answer, Tools

EFFECTS = {"lookup": "allow", "agent": "allow", "wipe": "deny"}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate(dict(EFFECTS)) as running:
        yield running


@pytest.fixture
def run(gate: Gate) -> Iterator[Run]:
    with Toolcards(gate.url, "key").run("r1", offline=PATIENCE, linger=1) as running:
        yield running


def list_questions(gate: Gate) -> list[tuple[str, str]]:
    """What the gate was asked about: ids on the wire, and tools."""
    return [(call.call_id, call.tool) for call in gate.calls]


class Agent:
    """Tools of the kinds above; what ran, and a tool that another call may come in the middle of."""

    def __init__(self, run: Run) -> None:
        self.ran: list[str] = []
        self.tools = Tools({name: self._tool(name) for name in ("lookup", "wipe", "slow")} | {"agent": self.agent}, run)
        self.inner: Callable[[], Any] = lambda: None
        self.start_event, self.go_on = threading.Event(), threading.Event()

    def _tool(self, name: str) -> Callable[..., str]:
        def tool(key: str = "") -> str:
            if name == "slow":
                self.start_event.set()
                assert self.go_on.wait(PATIENCE)
            self.ran.append(f"{name} {key}".strip())
            return name

        return tool

    def agent(self) -> str:
        """A sub-agent: calls again, under ids that begin again."""
        self.ran.append("agent")
        return str(self.inner())


def test_a_denied_tool_under_the_id_of_one_that_runs_is_asked_about_and_denied(run: Run, gate: Gate) -> None:
    agent = Agent(run)
    answers: list[Answer] = []
    first = threading.Thread(target=lambda: answers.append(agent.tools.call("slow", {}, "1")))
    first.start()
    assert agent.start_event.wait(PATIENCE)
    second = agent.tools.call("wipe", {}, "1")
    agent.go_on.set()
    first.join(PATIENCE)
    assert (second.state, agent.ran, answers[0].ok) == ("output-denied", ["slow"], True)
    assert list_questions(gate) == [("1", "slow"), ("1#2", "wipe")]


async def test_parallel_calls_of_one_id_are_judged_one_by_one(run: Run, gate: Gate) -> None:
    agent = Agent(run)
    expected = [("lookup", {"key": "a"}), ("wipe", {}), ("lookup", {"key": "b"}), ("lookup", {"key": "a"})]
    answers = await asyncio.gather(*(agent.tools.acall(tool, args, "call_0") for tool, args in expected))
    assert [answer.state.removeprefix("output-") for answer in answers] == ["available", "denied"] + ["available"] * 2
    assert sorted(agent.ran) == ["lookup a", "lookup a", "lookup b"]
    assert sorted(list_questions(gate)) == sorted(
        zip(["call_0", "call_0#2", "call_0#3", "call_0#4"], [tool for tool, _ in expected], strict=True)
    )


def test_a_sub_agents_call_with_its_parents_id_is_a_call_of_its_own(run: Run, gate: Gate) -> None:
    agent = Agent(run)
    agent.inner = lambda: agent.tools.call("wipe", {}, "call_0").state
    assert agent.tools.call("agent", {}, "call_0").value == "output-denied"
    assert agent.ran == ["agent"] and list_questions(gate) == [("call_0", "agent"), ("call_0#2", "wipe")]


def test_an_agent_that_calls_itself_with_the_same_arguments_is_asked_about_again(run: Run, gate: Gate) -> None:
    agent = Agent(run)
    agent.inner = lambda: [setattr(agent, "inner", lambda: "deep"), agent.tools.call("agent", {}, "call_0").value][1]
    assert agent.tools.call("agent", {}, "call_0").value == "deep"
    assert list_questions(gate) == [("call_0", "agent"), ("call_0#2", "agent")]


def test_an_id_that_comes_again_after_its_end_is_a_new_call(run: Run, gate: Gate) -> None:
    agent = Agent(run)
    states = [agent.tools.call(tool, {}, "call_0").state for tool in ("lookup", "lookup", "wipe", "wipe", "lookup")]
    assert [state == "output-available" for state in states] == [True, True, False, False, True]
    assert [call_id for call_id, _ in list_questions(gate)] == ["call_0", *(f"call_0#{n}" for n in range(2, 6))]


def test_calls_of_the_run_itself_have_ids_of_their_own(run: Run, gate: Gate) -> None:
    first, second = run.call("lookup", "c"), run.call("wipe", "c")
    assert (first.id, second.id) == ("c", "c#2")
    assert first.decision_now({}).allowed and not second.decision_now({}).allowed


def test_a_call_is_asked_about_once(run: Run, gate: Gate) -> None:
    call = run.call("lookup", "c")
    assert call.decision_now({}).allowed
    assert call.decision_now({}).code == "call_id_reused"
    assert list_questions(gate) == [("c", "lookup")]


@pytest.mark.parametrize("changed", [("wipe", {}, {}), ("lookup", {"a": 1}, {}), ("lookup", {}, {"source": "evil"})])
def test_another_call_under_an_id_that_was_asked_about_is_refused(
    gate: Gate, changed: tuple[str, Any, dict[str, str]]
) -> None:
    cards = Toolcards(gate.url, "key")
    assert cards.ask("r1", "c1", "lookup", {}).allowed
    tool, args, more = changed
    decision = cards.ask("r1", "c1", {"name": tool, **more}, args)  # type: ignore[arg-type]
    assert (decision.effect, decision.code) == ("deny", "call_id_reused")
    assert list_questions(gate) == [("c1", "lookup")]
    assert cards.ask("r1", "c1", "wipe", {}, attempt=2).code == "rule_deny"


def test_gated_functions_that_call_each_other_are_each_asked_about(gate: Gate) -> None:
    cards, ran = Toolcards(gate.url, "key"), list[str]()

    @gated(cards, run="r1")
    def wipe() -> None:
        ran.append("wipe")

    @gated(cards, run="r1", tool="lookup")
    def lookup(deep: bool) -> None:
        ran.append("lookup")
        if deep:
            lookup(False)
            wipe()

    with pytest.raises(Denied):
        lookup(True)
    assert ran == ["lookup", "lookup"] and [tool for _, tool in list_questions(gate)] == ["lookup", "lookup", "wipe"]
