"""Plugins are consulted outside the writer: a slow plugin delays its own call and no other commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from tests.support.server import PATIENCE
from toolcards import gate, hooks
from toolcards.core.calls import facts as f
from toolcards.gate.decisions import plugins as consulting
from toolcards.gate.decisions.decision_request import DecideCall
from toolcards.gate.writer import group_commit
from toolcards.hooks import registry
from toolcards.models import AgentKey, Approval, Event, Source, ToolCall
from toolcards.notifications import subscriptions

pytestmark = pytest.mark.django_db(transaction=True)
WAIT = PATIENCE


class Slow:
    """A plugin that thinks about the calls of the run `slow` until the test releases it."""

    def __init__(self, answer: Any = None) -> None:
        self.start, self.release, self.calls, self.answer = threading.Event(), threading.Event(), list[Any](), answer

    def before(self, call: dict[str, Any]) -> Any:
        self.calls.append((call["run_id"], call["call_id"], call["attempt"], call["input"]))
        if call["run_id"] != "slow":
            return None
        self.start.set()
        assert self.release.wait(WAIT)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture(autouse=True)
def _unplugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "LIMIT", WAIT)
    subscriptions.clear_cache()
    yield
    hooks.clear()
    subscriptions.clear_cache()


@pytest.fixture
def slow() -> Iterator[Slow]:
    plugin = Slow()
    hooks.register(plugin, "slow")
    yield plugin
    plugin.release.set()


@pytest.fixture
def agent(db: None) -> Source:
    gate.activate({"v": 1, "default": "allow", "rules": []}, author="a test")
    return AgentKey.objects.ensure("tck_0123456789012345678901234567890123", name="an agent").source


def build_request(run: str, call_id: str = "c", args: Any = None, **more: Any) -> gate.DecisionRequest:
    return gate.DecisionRequest(run=run, call_id=call_id, tool="bash", args=args or {"command": "ls"}, **more)


def start_decision(source: Source, run: str, call_id: str = "c", **more: Any) -> asyncio.Future[dict[str, Any]]:
    return asyncio.ensure_future(gate.adecide(source, build_request(run, call_id, **more)))


async def reached(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, WAIT)


@sync_to_async
def kinds(run: str) -> list[str]:
    return [event.decoded_fact.type for event in Event.objects.filter(run__name=run).order_by("seq")]


@sync_to_async
def tell(source: Source, run: str, *facts: Any) -> None:
    from tests.support.gate_commands import RecordFacts

    group_commit.execute(RecordFacts(source, run, list(facts)))


async def test_while_a_plugin_thinks_other_runs_are_decided(agent: Source, slow: Slow) -> None:
    waits = start_decision(agent, "slow")
    await reached(slow.start)
    for run in ("one", "two"):
        assert (await asyncio.wait_for(gate.adecide(agent, build_request(run)), WAIT))["decision"] == "allow"
    assert not waits.done() and "decided" not in await kinds("slow")
    slow.release.set()
    value = await waits
    assert (value["decision"], bool(value["permit"])) == ("allow", True)
    assert (await kinds("slow"))[-2:] == ["decided", "permit-moved"]


async def test_a_stream_waits_for_its_own_plugins_and_keeps_its_order(agent: Source, slow: Slow) -> None:
    reports: list[gate.CommitReport] = []
    ours = gate.open_stream(agent, "slow", protocol="native", mode="gate", channel="socket", on_commit=reports.append)
    ours.push([f.InputReady("a", "bash", {"n": 1}, True), f.TextDelta("after a")], 1)
    ours.push([f.OutputReady("a", "ran")], 2)
    ours.push([f.InputReady("b", "bash", {"n": 2}, True)], 3)
    await reached(slow.start)
    other = gate.open_stream(agent, "other", protocol="native", mode="gate", channel="socket", on_commit=reports.append)
    other.push([f.InputReady("x", "bash", {}, True), f.OutputReady("x", 1)], 1)
    await asyncio.wait_for(other.wait_until_committed(), WAIT)
    assert [decision["decision"] for commit in reports for decision in commit.decisions] == ["allow"]
    assert "output-ready" not in await kinds("slow") and max(commit.frames for commit in reports if commit.frames) == 1
    slow.release.set()
    await asyncio.wait_for(ours.wait_until_committed(), WAIT)
    story = [kind for kind in await kinds("slow") if kind not in {"run-started"}]
    assert story == ["input-ready", "decided", "text-delta", "output-ready", "input-ready", "decided"]
    assert [decision["call_id"] for commit in reports for decision in commit.decisions] == ["x", "a", "b"]
    assert reports[-1].frames == 3
    assert not [card for card in await sync_to_async(list)(ToolCall.objects.all()) if "ungoverned" in card.card]


async def test_a_veto_stops_what_the_stream_asked_for(agent: Source, slow: Slow) -> None:
    slow.answer = hooks.Veto("Not now.")
    slow.release.set()
    reports: list[gate.CommitReport] = []
    ours = gate.open_stream(agent, "slow", protocol="native", mode="gate", channel="hook", on_commit=reports.append)
    ours.push([f.InputReady("a", "bash", {"n": 1}, True)])
    await asyncio.wait_for(ours.wait_until_committed(), WAIT)
    (entries,) = [entries for commit in reports for entries in commit.decisions]
    assert (entries["decision"], entries["reason"]["code"]) == ("deny", "plugin_veto")


async def test_an_answer_about_another_input_does_not_count(agent: Source, slow: Slow) -> None:
    waits = start_decision(agent, "slow")
    await reached(slow.start)
    await tell(agent, "slow", f.InputReady("c", "bash", {"command": "rm -rf /"}, True))
    slow.release.set()
    with pytest.raises(gate.KeyReuse):
        await waits
    assert "decided" not in await kinds("slow")


async def test_a_call_that_ended_while_plugins_were_asked_is_not_brought_back(agent: Source, slow: Slow) -> None:
    waits = start_decision(agent, "slow")
    await reached(slow.start)
    await tell(agent, "slow", f.RunEnded(outcome="aborted"))
    slow.release.set()
    with pytest.raises(gate.TooLate):
        await waits
    assert (await kinds("slow"))[-1] == "run-ended"


async def test_a_stream_whose_run_ended_elsewhere_decides_nothing_afterwards(agent: Source, slow: Slow) -> None:
    reports: list[gate.CommitReport] = []
    ours = gate.open_stream(agent, "slow", protocol="native", mode="gate", channel="socket", on_commit=reports.append)
    ours.push([f.InputReady("a", "bash", {"n": 1}, True)])
    await reached(slow.start)
    await tell(agent, "slow", f.RunEnded(outcome="aborted"))
    slow.release.set()
    await asyncio.wait_for(ours.wait_until_committed(), WAIT)
    assert not [decision for commit in reports for decision in commit.decisions] and "decided" not in await kinds(
        "slow"
    )


async def test_the_same_question_twice_asks_the_plugins_once(agent: Source, slow: Slow) -> None:
    both = [start_decision(agent, "slow"), start_decision(agent, "slow")]
    await reached(slow.start)
    while len([kind for kind in await kinds("slow") if kind == "input-ready"]) < 2:
        await asyncio.sleep(0.01)
    await gate.arecord_heartbeat(agent, "slow")  # written after the second question, so that one has got to the plugins
    slow.release.set()
    first, second = await asyncio.gather(*both)
    assert first == second and first["decision"] == "allow"
    assert slow.calls == [("slow", "c", 1, {"command": "ls"})]
    assert (await gate.adecide(agent, build_request("slow")))["decision"] == "allow" and len(slow.calls) == 1


async def test_another_attempt_consults_the_plugins_again(agent: Source, slow: Slow) -> None:
    slow.release.set()
    for attempt in (1, 2):
        decision = await gate.adecide(agent, build_request("slow", attempt=attempt))
        assert (decision["decision"], decision["attempt"]) == ("allow", attempt)
        claim = {"call_id": "c", "args_sha256": decision["args_sha256"]}
        await gate.aclaim_permit(agent, decision["permit"]["id"], claim)
        await gate.arecord_result(agent, "slow", "c", {"outcome": "error", "error": {"code": "timeout"}})
    assert [attempt for _, _, attempt, _ in slow.calls] == [1, 2]


async def test_an_agent_that_hangs_up_during_the_plugins_leaves_no_decision(agent: Source, slow: Slow) -> None:
    waits, stays = start_decision(agent, "slow"), start_decision(agent, "slow", "d")
    await reached(slow.start)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    slow.release.set()
    assert (await stays)["call_id"] == "d"
    card = await sync_to_async(ToolCall.objects.get)(call_id="c")
    assert (card.state, card.as_card().decision) == ("input-available", None)


async def test_an_error_while_consulting_is_a_denial(
    agent: Source, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(payload: Any) -> Any:
        raise RecursionError

    monkeypatch.setattr(hooks, "consult", broken)
    decision = await gate.adecide(agent, build_request("slow"))
    assert (decision["decision"], decision["reason"]["code"], decision["permit"]) == ("deny", "plugin_crash", None)


async def test_an_inquiry_that_waits_too_long_for_its_turn_is_a_denial_that_can_be_retried(
    agent: Source, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consulting, "MAX_QUEUE_SECONDS", -1.0)
    decision = await gate.adecide(agent, build_request("slow"))
    card = await sync_to_async(ToolCall.objects.get)()
    assert (decision["decision"], decision["reason"]["code"]) == ("deny", "plugin_timeout") and not slow.calls
    assert card.as_card().error.retryable is True


# ---------------------------------------------------------------- two server processes, each with plugins of its own


class Says:
    """A plugin that has one answer, and counts how often it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.question_count = answer, 0

    def before(self, call: dict[str, Any]) -> Any:
        self.question_count += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


ANSWERS = {
    "nothing": None, "a veto": hooks.Veto("not today"), "another input": {"input": {"command": "ls -l"}},
    "a crash": KeyError("oh"),
}  # fmt: skip


@pytest.mark.parametrize("second", ANSWERS)
@pytest.mark.parametrize("first", ANSWERS)
def test_of_two_processes_that_ask_about_one_attempt_the_first_word_counts(
    agent: Source, first: str, second: str
) -> None:
    """An agent asks two processes while the plugins think: both consult theirs, and one decision results."""

    def consult_plugin(inquiry: consulting.PluginInquiry, plugin: Says) -> consulting.PluginResult:
        hooks.clear()
        hooks.register(plugin, "ours")
        return consulting.PluginResult(inquiry, hooks.consult(inquiry.payload))

    plugins = Says(ANSWERS[first]), Says(ANSWERS[second])
    hooks.register(plugins[0], "ours")
    inquiries = [group_commit.execute(DecideCall(agent, build_request("r"))) for _ in plugins]
    assert all(isinstance(inquiry, consulting.PluginInquiry) for inquiry in inquiries)
    one, other = (consult_plugin(inquiry, plugin) for inquiry, plugin in zip(inquiries, plugins, strict=True))
    result = group_commit.execute(DecideCall(agent, build_request("r"), one))
    before = ToolCall.objects.get().as_card()
    try:
        again = group_commit.execute(DecideCall(agent, build_request("r"), other))
    except gate.RequestRefused as late:
        assert first == "a crash" and late.code == "run_ended"
    else:
        assert again == result
    assert ToolCall.objects.get().as_card() == before
    allowed = first in {"nothing", "another input"}
    assert result["decision"] == ("allow" if allowed else "deny")
    assert Approval.objects.count() == allowed and before.input == (
        {"command": "ls -l"} if first == "another input" else {"command": "ls"}
    )
    assert [plugin.question_count for plugin in plugins] == [1, 1]
