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
from toolcards.client.framework_support.call_registry import CallRegistry, find_registry
from toolcards.client.plain import Answer, Tools
from toolcards.client.transport.pending import WireIds

EFFECTS = {"lookup": "allow", "agent": "allow", "wipe": "deny"}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate(dict(EFFECTS)) as running:
        yield running


@pytest.fixture
def run(gate: Gate) -> Iterator[Run]:
    with Toolcards(gate.url, "key").run("r1", offline=PATIENCE, linger=1) as running:
        yield running


def asked(gate: Gate) -> list[tuple[str, str]]:
    """What the gate was asked about: ids on the wire, and tools."""
    return [(call.call_id, call.tool) for call in gate.calls]


class Agent:
    """Tools of the kinds above; what ran, and a tool that another call may come in the middle of."""

    def __init__(self, run: Run) -> None:
        self.ran: list[str] = []
        self.tools = Tools({name: self._tool(name) for name in ("lookup", "wipe", "slow")} | {"agent": self.agent}, run)
        self.inner: Callable[[], Any] = lambda: None
        self.begun, self.go_on = threading.Event(), threading.Event()

    def _tool(self, name: str) -> Callable[..., str]:
        def tool(key: str = "") -> str:
            if name == "slow":
                self.begun.set()
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
    assert agent.begun.wait(PATIENCE)
    second = agent.tools.call("wipe", {}, "1")
    agent.go_on.set()
    first.join(PATIENCE)
    assert (second.state, agent.ran, answers[0].ok) == ("output-denied", ["slow"], True)
    assert asked(gate) == [("1", "slow"), ("1#2", "wipe")]


async def test_parallel_calls_of_one_id_are_judged_one_by_one(run: Run, gate: Gate) -> None:
    agent = Agent(run)
    expected = [("lookup", {"key": "a"}), ("wipe", {}), ("lookup", {"key": "b"}), ("lookup", {"key": "a"})]
    answers = await asyncio.gather(*(agent.tools.acall(tool, args, "call_0") for tool, args in expected))
    assert [answer.state.removeprefix("output-") for answer in answers] == ["available", "denied"] + ["available"] * 2
    assert sorted(agent.ran) == ["lookup a", "lookup a", "lookup b"]
    assert sorted(asked(gate)) == sorted(
        zip(["call_0", "call_0#2", "call_0#3", "call_0#4"], [tool for tool, _ in expected], strict=True)
    )


def test_a_sub_agents_call_with_its_parents_id_is_a_call_of_its_own(run: Run, gate: Gate) -> None:
    agent = Agent(run)
    agent.inner = lambda: agent.tools.call("wipe", {}, "call_0").state
    assert agent.tools.call("agent", {}, "call_0").value == "output-denied"
    assert agent.ran == ["agent"] and asked(gate) == [("call_0", "agent"), ("call_0#2", "wipe")]


def test_an_agent_that_calls_itself_with_the_same_arguments_is_asked_about_again(run: Run, gate: Gate) -> None:
    agent = Agent(run)
    agent.inner = lambda: [setattr(agent, "inner", lambda: "deep"), agent.tools.call("agent", {}, "call_0").value][1]
    assert agent.tools.call("agent", {}, "call_0").value == "deep"
    assert asked(gate) == [("call_0", "agent"), ("call_0#2", "agent")]


def test_an_id_that_comes_again_after_its_end_is_a_new_call(run: Run, gate: Gate) -> None:
    agent = Agent(run)
    states = [agent.tools.call(tool, {}, "call_0").state for tool in ("lookup", "lookup", "wipe", "wipe", "lookup")]
    assert [state == "output-available" for state in states] == [True, True, False, False, True]
    assert [call_id for call_id, _ in asked(gate)] == ["call_0", *(f"call_0#{n}" for n in range(2, 6))]


def test_calls_of_the_run_itself_have_ids_of_their_own(run: Run, gate: Gate) -> None:
    first, second = run.call("lookup", "c"), run.call("wipe", "c")
    assert (first.id, second.id) == ("c", "c#2")
    assert first.decision_now({}).allowed and not second.decision_now({}).allowed


def test_a_call_is_asked_about_once(run: Run, gate: Gate) -> None:
    call = run.call("lookup", "c")
    assert call.decision_now({}).allowed
    assert call.decision_now({}).code == "call_id_reused"
    assert asked(gate) == [("c", "lookup")]


def test_wire_ids_are_unique_even_where_a_model_writes_such_ids_itself() -> None:
    ids = WireIds()
    names = [ids.make_unique(each) for each in ["a", "a#2", "a", "a", "a#2", "a#2#2", "a", "b"]]
    assert len(set(names)) == len(names) and names[0] == "a" and names[-1] == "b"


# ---------------------------------------------------------------- over HTTP, where the caller names the id


@pytest.mark.parametrize("changed", [("wipe", {}, {}), ("lookup", {"a": 1}, {}), ("lookup", {}, {"source": "evil"})])
def test_another_call_under_an_id_that_was_asked_about_is_refused(
    gate: Gate, changed: tuple[str, Any, dict[str, str]]
) -> None:
    cards = Toolcards(gate.url, "key")
    assert cards.ask("r1", "c1", "lookup", {}).allowed
    tool, args, more = changed
    decision = cards.ask("r1", "c1", {"name": tool, **more}, args)  # type: ignore[arg-type]
    assert (decision.effect, decision.code) == ("deny", "call_id_reused")
    assert asked(gate) == [("c1", "lookup")]
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
    assert ran == ["lookup", "lookup"] and [tool for _, tool in asked(gate)] == ["lookup", "lookup", "wipe"]


# ---------------------------------------------------------------- what framework modules build on


@pytest.fixture
def registry(run: Run) -> CallRegistry:
    match = find_registry(run)
    assert match is not None
    return match


def test_what_a_person_approved_runs_once_and_only_as_it_was_approved(registry: CallRegistry, gate: Gate) -> None:
    """A framework asks when it pauses, and again where the tool runs: the second time it gets the same answer."""
    args = {"key": "a"}
    assert registry.enter("c", "lookup", args).ask_now(args, take=False).allowed
    runs = registry.enter("c", "lookup", args)
    assert runs.ask_now(args).allowed and asked(gate) == [("c", "lookup")]
    again = registry.enter("c", "lookup", args)
    assert again is not runs
    again.ask_now(args)
    assert asked(gate) == [("c", "lookup"), ("c#2", "lookup")]


@pytest.mark.parametrize(("tool", "args"), [("wipe", {"key": "a"}), ("lookup", {"key": "b"}), ("lookup", {})])
def test_an_approval_is_for_no_other_call_of_the_same_id(
    registry: CallRegistry, gate: Gate, tool: str, args: Any
) -> None:
    assert registry.enter("c", "lookup", {"key": "a"}).ask_now({"key": "a"}, take=False).allowed
    registry.enter("c", tool, args).ask_now(args)
    assert asked(gate) == [("c", "lookup"), ("c#2", tool)]


def test_an_edited_call_runs_as_it_was_edited_or_as_it_was_written(gate: Gate) -> None:
    gate.effects, gate.edited = {"lookup": "ask"}, {"key": "edited"}
    for ran in ({"key": "a"}, {"key": "edited"}):
        with Toolcards(gate.url, "key").run(f"run {ran}", offline=PATIENCE, linger=1) as run:
            registry = find_registry(run)
            assert registry is not None
            registry.enter("c", "lookup", {"key": "a"}).ask_now({"key": "a"}, take=False)
            decision = registry.enter("c", "lookup", ran).ask_now(ran)
            assert (decision.allowed, decision.edited, decision.args) == (True, True, {"key": "edited"})
    assert len(gate.calls) == 2


def test_a_stream_that_lags_behind_reports_no_second_call(registry: CallRegistry, gate: Gate) -> None:
    call = registry.enter("c", "lookup", {})
    assert call.ask_now({}).allowed
    call.output("found")
    assert registry.match_announced("c", "lookup") is call
    assert registry.match_announced("c", "lookup") is not call  # a second announcement is a second call


def test_calls_that_were_written_are_each_taken_once(registry: CallRegistry, gate: Gate) -> None:
    begun = [registry.begin("c", "lookup"), registry.begin("c", "wipe"), registry.begin("c", "lookup")]
    written = [registry.complete("c", tool, {"n": n}) for n, tool in enumerate(["lookup", "wipe", "lookup"])]
    assert written == begun
    assert registry.enter("c", "lookup", {"n": 2}) is begun[2]
    assert registry.enter("c", "lookup", {"n": 0}) is begun[0]
    assert registry.enter("c", "wipe", {"n": 1}) is begun[1]
    assert registry.enter("c", "lookup", {"n": 0}) not in begun


def test_many_threads_that_enter_one_call_get_one_each(registry: CallRegistry) -> None:
    """Twenty threads, one id, one tool, the same arguments: twenty calls."""
    registry.complete("c", "lookup", {})
    entered: list[Any] = []
    threads = [threading.Thread(target=lambda: entered.append(registry.enter("c", "lookup", {}))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(call) for call in entered}) == 20 and len({call.call.id for call in entered}) == 20
