"""One call of a framework: each phase is reported once, an end is final, and only interruptions reach the agent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE
from tests.support.tables import loop_over
from toolcards.client import Run, Toolcards, hooks
from toolcards.client.common.input_repair import Repair
from toolcards.client.framework_support.tracked_call import OTHER_TOOL, TrackedCall, canonical_text


def list_frames(run: Run) -> list[tuple[str, Any]]:
    """Return the kinds and contents of the frames that a run without a connection has queued."""
    run._outbox.rewind()
    frames: list[dict[str, Any]] = []
    while text := run._outbox.take_message():
        frames += json.loads(text) if text.startswith("[") else [json.loads(text)]
    names = ("delta", "input", "output", "error", "reason")
    return [
        (frame["type"].removeprefix("tool."), next((frame[name] for name in names if name in frame), None))
        for frame in frames
    ]


@pytest.fixture
def observed() -> TrackedCall:
    """A call of a run that is only shown, and that has no connection."""
    run = Toolcards("http://127.0.0.1:9", "key").run("r1", gate=False)
    return TrackedCall("c1", "bash", run.call("bash", "c1"))


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"bash": "allow", "wipe": "deny", "mail": "ask"}) as running:
        yield running


@pytest.fixture
def run(gate: Gate) -> Iterator[Run]:
    with Toolcards(gate.url, "key").run("r1", offline=PATIENCE, linger=1) as running:
        yield running


@pytest.fixture
def make(run: Run) -> Callable[..., TrackedCall]:
    return lambda tool="bash", name="c1": TrackedCall(name, tool, run.call(tool, name))


@pytest.fixture(params=["async", "plain"])
def ask(request: pytest.FixtureRequest) -> Any:
    """Ask in both ways."""
    if request.param == "plain":
        return lambda call, args, **more: call.ask_now(args, **more)
    return lambda call, args, **more: asyncio.run(call.ask(args, **more))


@pytest.fixture
def plugin() -> Iterator[Any]:
    """Notes what it hears; `before` does what the test says."""

    class Plugin:
        def __init__(self) -> None:
            self.entries: list[Any] = []
            self.before: Callable[[Any], Any] = lambda call: None

        def after(self, call: Any) -> None:
            self.entries.append("after")

        def error(self, call: Any) -> None:
            self.entries.append(call["error"]["code"])

        def settled(self, call: Any) -> None:
            self.entries.append(call["outcome"])

    plugin = Plugin()
    unplug = hooks.register(plugin)
    yield plugin
    unplug()


def raise_error(error: BaseException) -> Any:
    def before(call: Any) -> None:
        raise error

    return before


# ---------------------------------------------------------------- shown only
def test_each_phase_is_reported_once(observed: TrackedCall) -> None:
    observed.delta('{"a"')
    observed.delta("")
    observed.delta(": 1}")
    observed.complete({"a": 1})
    observed.complete({"a": 1})
    observed.delta("more")
    assert observed.ask_now({"a": 1}).allowed
    observed.output("done")
    assert list_frames(observed.call.run) == [
        ("input.started", None), ("input.delta", '{"a"'), ("input.delta", ": 1}"), ("input.available", {"a": 1}),
        ("output.available", "done"),
    ]  # fmt: skip


ENDS: dict[str, Callable[[TrackedCall], None]] = {
    "output": lambda call: call.output(1),
    "failed": lambda call: call.failed(ValueError("no")),
    "error": lambda call: call.error("no", code="timeout"),
    "denied": lambda call: call.denied("no"),
    "invalid": lambda call: call.invalid({}, "no"),
}


@loop_over(("first", "second"), [(first, second) for first in ENDS for second in ENDS])
def test_an_end_is_final(first: str, second: str) -> None:
    run = Toolcards("http://127.0.0.1:9", "key").run("r1", gate=False)
    call = TrackedCall("c1", "bash", run.call("bash", "c1"))
    assert not call.over
    ENDS[first](call)
    before = list_frames(run)
    ENDS[second](call)
    assert call.over and len(before) == 2 and list_frames(run) == before


@loop_over("error", [KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()], ids=type)
def test_an_interruption_is_no_failure_of_the_tool(error: BaseException) -> None:
    run = Toolcards("http://127.0.0.1:9", "key").run("r1", gate=False)
    call = TrackedCall("c1", "bash", run.call("bash", "c1"))
    call.failed(error)
    assert not call.over and len(list_frames(run)) == 1 and run.interrupted


def test_a_plugin_stops_a_call_that_is_only_shown(observed: TrackedCall, plugin: Any) -> None:
    plugin.before = raise_error(hooks.Veto("not today"))
    decision = observed.ask_now({"a": 1})
    assert (decision.effect, decision.code, observed.over) == ("deny", "plugin_veto", True)
    assert list_frames(observed.call.run)[1:] == [("input.delta", '{"a": 1}'), ("output.denied", decision.text)]
    assert "not today" in decision.text


def test_a_plugin_that_takes_too_long_is_an_error_and_no_denial(
    observed: TrackedCall, plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "LIMIT", 0.02)
    is_over = threading.Event()
    plugin.before = lambda call: is_over.wait(PATIENCE) and None
    observed.delta('{"a":1}')
    decision = observed.ask_now({"a": 1})
    is_over.set()
    assert (decision.effect, decision.code, observed.over) == ("deny", "plugin_timeout", True)
    *_, before, (kind, error) = list_frames(observed.call.run)
    assert before == ("input.delta", '{"a":1}')  # not written again
    assert (kind, error["code"], error["authority"]) == ("output.error", "plugin_timeout", "plugin")


def test_what_a_plugin_puts_in_place_is_shown_and_runs(observed: TrackedCall, plugin: Any) -> None:
    plugin.before = lambda call: {"input": {"a": 2}}
    decision = observed.ask_now({"a": 1})
    assert decision.allowed and decision.edited and decision.args == {"a": 2}
    assert list_frames(observed.call.run)[1:] == [("input.available", {"a": 2})]


# ---------------------------------------------------------------- identity
def test_a_call_is_another_one_if_its_arguments_differ(observed: TrackedCall) -> None:
    assert observed.matches({"a": 1}) and observed.is_being_written() and observed.is_untouched()
    observed.identify({"a": 1, "b": 2})
    observed.identify({"a": 3})  # the first input counts
    assert observed.matches({"b": 2, "a": 1}) and not observed.matches({"a": 3}) and not observed.is_being_written()


def test_a_call_that_waits_runs_or_has_ended_is_never_taken_for_another(make: Any) -> None:
    call = make()
    call.reserve({"a": 1})
    assert call.is_busy and not call.matches({"a": 1}) and not call.is_untouched()
    assert call.ask_now({"a": 1}).allowed
    assert call.is_busy and not call.matches({"a": 1})
    call.pause()  # the framework runs it again
    assert not call.is_busy and call.matches({"a": 1})
    call.output(1)
    assert not call.is_busy and not call.matches({"a": 1})


@loop_over(("one", "other", "same"), [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True), ({"a": 1}, {"a": 1.0}, False), ({"a": [1]}, {"a": (1,)}, True),
    ({}, None, False),
    ({"a": "1"}, {"a": 1}, False),
])  # fmt: skip
def test_equal_json_has_one_text(one: Any, other: Any, same: bool) -> None:
    assert (canonical_text(one) == canonical_text(other)) is same


# ---------------------------------------------------------------- decisions
def test_an_allowed_call_is_asked_about_once_and_its_result_is_reported(
    make: Any, gate: Gate, ask: Any, plugin: Any
) -> None:
    call = make()
    assert ask(call, {"a": 1}).allowed and call.is_running
    call.output("done")
    assert call.call.run.flush(PATIENCE)
    assert [stage for stage in gate.stages() if stage.startswith("tool.")] == [
        "tool.input.started", "tool.input.available", "tool.output.available",
    ]  # fmt: skip
    hooks.drain()
    assert plugin.entries == ["after", "ok"]


def test_a_denied_call_is_over_and_plugins_are_notified(make: Any, gate: Gate, ask: Any, plugin: Any) -> None:
    call = make("wipe")
    assert not ask(call, {}).allowed and call.over and not call.is_running
    call.output("nothing ran")
    hooks.drain()
    assert plugin.entries == ["policy_denied", "denied"]
    assert call.call.run.flush(PATIENCE) and "tool.output.available" not in gate.stages()


def test_an_approval_in_advance_is_used_by_the_call_that_runs(make: Any, gate: Gate, ask: Any) -> None:
    call = make()
    first = ask(call, {"a": 1}, take=False)
    assert first.allowed and not call.is_running and call.matches({"a": 1})
    assert ask(call, {"a": 1}) is first and call.is_running and len(gate.calls) == 1


def test_a_persons_edit_runs_and_both_inputs_are_this_call(make: Any, gate: Gate, ask: Any) -> None:
    gate.edited = {"to": "you"}
    call = make("mail")
    decision = ask(call, {"to": "me"}, take=False)
    assert decision.edited and decision.args == {"to": "you"}
    assert call.matches({"to": "me"}) and call.matches({"to": "you"}) and not call.matches({"to": "them"})


def test_a_repair_of_the_arguments_runs(make: Any, gate: Gate, ask: Any) -> None:
    decision = ask(make(), {"A": 1}, repair=Repair("bash", {"a": 1}, "field name"))
    assert decision.allowed and decision.args == {"a": 1} and [each.args for each in gate.calls] == [{"a": 1}]


def test_a_repair_to_a_tool_that_the_framework_does_not_run_is_denied(gate: Gate, ask: Any) -> None:
    tools = [{"name": "bash"}, {"name": "mail"}]
    with Toolcards(gate.url, "key").run("r1", tools=tools, offline=PATIENCE, linger=1) as run:
        call = TrackedCall("c1", "Bash", run.call("Bash", "c1"))
        decision = ask(call, {"a": 1})  # the run itself repairs the name; the framework would run `Bash`
        assert (decision.effect, decision.code, decision.text) == ("deny", "no_such_tool", OTHER_TOOL)
        assert call.over and run.flush(PATIENCE) and gate.stages()[-1] == "tool.output.denied"


def test_a_plugins_input_is_the_one_that_is_asked_about(make: Any, gate: Gate, ask: Any, plugin: Any) -> None:
    plugin.before = lambda call: {"input": {"a": 2}}
    decision = ask(make(), {"a": 1})
    assert decision.edited and decision.args == {"a": 2} and [each.args for each in gate.calls] == [{"a": 2}]


@pytest.mark.parametrize("end", ["output", "failed", "error", "denied"])
def test_plugins_are_notified_of_each_end_once(make: Any, plugin: Any, end: str) -> None:
    call = make()
    call.ask_now({})
    ENDS[end](call)
    ENDS["output"](call)
    call.close()
    hooks.drain()
    assert plugin.entries == {
        "output": ["after", "ok"], "failed": ["tool_failed", "error"], "error": ["timeout", "error"],
        "denied": ["approval_denied", "denied"],
    }[end]  # fmt: skip


def test_a_call_without_an_end_is_closed_as_aborted(make: Any, plugin: Any) -> None:
    call = make()
    call.ask_now({})
    call.close()
    hooks.drain()
    assert plugin.entries == ["aborted"]


async def test_an_agent_that_stops_waiting_ends_the_call(make: Any, gate: Gate) -> None:
    call = make("mail")
    task = asyncio.create_task(call.ask({"to": "me"}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert call.over and not call.is_busy


def test_a_usable_result_that_its_schema_refuses_is_an_error_for_plugins_too(gate: Gate, plugin: Any) -> None:
    tools = [{"name": "bash", "output_schema": {"type": "object"}}]
    with Toolcards(gate.url, "key").run("r1", tools=tools, offline=PATIENCE, linger=1) as run:
        call = TrackedCall("c1", "bash", run.call("bash", "c1"))
        call.ask_now({})
        call.output("text")
        assert run.flush(PATIENCE) and gate.stages()[-1] == "tool.output.error"
    hooks.drain()
    assert plugin.entries == ["bad_output", "error"]
