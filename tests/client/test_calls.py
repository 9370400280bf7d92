"""One call of a run: each report is one frame, a decision is final, and reporting neither waits nor raises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE
from tests.support.tables import loop_over
from toolcards.client import Denied, Run, Toolcards
from toolcards.client.calls import FORM, Call
from toolcards.client.common.input_repair import Repair
from toolcards.client.values.jsonable import LONGEST

WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "input_schema": {
        "type": "object", "required": ["city"], "additionalProperties": False,
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    },
    "output_schema": {"type": "object", "required": ["sky"]},
}  # fmt: skip


def list_frames(run: Run) -> list[dict[str, Any]]:
    """Return the frames that a run without a connection has queued, without their numbers."""
    run._outbox.rewind()
    frames: list[dict[str, Any]] = []
    while text := run._outbox.take_message():
        frames += json.loads(text) if text.startswith("[") else [json.loads(text)]
    return [{name: value for name, value in frame.items() if name != "n"} for frame in frames]


def report(method: str, *args: Any, **more: Any) -> dict[str, Any]:
    """Return the frame of one report."""
    call = Call(Toolcards("http://127.0.0.1:9", "key").run("r1", tools=[WEATHER]), "bash", "c1")
    getattr(call, method)(*args, **more)
    (frame,) = list_frames(call.run)
    assert frame.pop("call_id") == "c1"
    return frame


@loop_over(("method", "args", "more", "frame"), [
    ("delta", ('{"a',), {}, {"type": "tool.input.delta", "delta": '{"a'}),
    ("available", ({"a": 1},), {}, {"type": "tool.input.available", "tool": "bash", "input": {"a": 1}}),
    ("invalid", ("{", "not JSON"), {}, {"type": "tool.input.invalid", "tool": "bash", "input": "{",
                                        "error": {"message": "not JSON", "code": "invalid_input"}}),
    ("invalid", (None,), {"code": "no_such_tool"}, {"type": "tool.input.invalid", "tool": "bash", "input": None,
                                                    "error": {"message": "", "code": "no_such_tool"}}),
    ("partial", ([1],), {}, {"type": "tool.output.partial", "output": [1]}),
    ("output", (), {}, {"type": "tool.output.available", "output": None}),
    ("output", ({"a": (1, 2)},), {}, {"type": "tool.output.available", "output": {"a": [1, 2]}}),
    ("deferred", (), {}, {"type": "tool.output.deferred"}),
    ("error", (), {}, {"type": "tool.output.error", "error": {"message": ""}}),
    ("error", ("no",), {"code": "timeout", "retryable": True},
     {"type": "tool.output.error", "error": {"message": "no", "code": "timeout", "retryable": True}}),
    ("denied", ("why",), {}, {"type": "tool.output.denied", "reason": "why"}),
])  # fmt: skip
def test_each_report_is_one_frame(method: str, args: Any, more: Any, frame: dict[str, Any]) -> None:
    assert report(method, *args, **more) == frame


class Handle:
    """Nothing that anybody could read."""


@loop_over(
    "value",
    [Handle(), float("nan"), {1, 2}, b"x", {1: "a", "1": "b"}, 2**40_000, [[[Handle()]]], "\ud800", object],
    ids=type,
)
def test_no_value_stops_a_report(value: Any) -> None:
    for method in ("available", "invalid", "partial", "output", "error"):
        assert report(method, value)["type"].startswith("tool.")


def test_long_values_are_cut_for_one_frame() -> None:
    for method, place in (("available", "input"), ("invalid", "input"), ("partial", "output"), ("output", "output")):
        assert "characters in all" in report(method, "x" * (LONGEST + 1))[place]
    assert "characters in all" in report("error", "x" * (LONGEST + 1))["error"]["message"]


def test_an_exception_is_reported_with_its_class() -> None:
    error = report("failed", TimeoutError("too slow"))["error"]
    assert error["message"] == "too slow" and error["code"] == "timeout"


def test_an_unusable_result_is_an_error_and_the_caller_reads_why() -> None:
    call = Call(Toolcards("http://127.0.0.1:9", "key").run("r1", tools=[WEATHER]), "get_weather", "c1")
    assert "does not match its schema" in call.output({"rain": 1})
    assert call.output({"sky": "blue"}) == ""
    assert [frame["type"] for frame in list_frames(call.run)] == ["tool.output.error", "tool.output.available"]
    assert list_frames(call.run)[0]["error"]["code"] == "bad_output"


# ---------------------------------------------------------------- decisions
@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"get_weather": "allow", "wipe": "deny", "mail": "ask"}) as running:
        yield running


@pytest.fixture
def run(gate: Gate) -> Iterator[Run]:
    tools = [WEATHER, {"name": "wipe"}, {"name": "mail"}]
    with Toolcards(gate.url, "key").run("r1", tools=tools, offline=PATIENCE, linger=1) as running:
        yield running


def list_questions(gate: Gate) -> list[tuple[str, Any]]:
    return [(call.tool, call.args) for call in gate.calls]


@pytest.fixture(params=["async", "plain"])
def decide(request: pytest.FixtureRequest) -> Any:
    """Ask in both ways."""
    if request.param == "plain":
        return lambda call, args, **more: call.decision_now(args, **more)
    return lambda call, args, **more: asyncio.run(call.decision(args, **more))


def test_a_call_that_fits_is_asked_about_as_it_was_written(run: Run, gate: Gate, decide: Any) -> None:
    decision = decide(run.call("get_weather", "c1"), {"city": "Rome"})
    assert decision.allowed and not decision.edited and list_questions(gate) == [("get_weather", {"city": "Rome"})]


def test_a_repaired_call_is_asked_about_and_runs_as_repaired(run: Run, gate: Gate, decide: Any) -> None:
    call = run.call("GetWeather", "c1")
    decision = decide(call, {"City": "Rome", "days": "3"})
    assert (decision.allowed, decision.edited, decision.args) == (True, True, {"city": "Rome", "days": 3})
    assert call.tool == "get_weather" and list_questions(gate) == [("get_weather", {"city": "Rome", "days": 3})]
    frame = next(body for stage, body in gate.requests if stage == "tool.input.repaired")
    assert frame["original"] == {"City": "Rome", "days": "3"} and "tool name" in frame["method"]


def test_a_repair_of_the_caller_is_used(run: Run, gate: Gate, decide: Any) -> None:
    repair = Repair("mail", {"to": "me"}, "by hand")
    gate.edited = {"to": "you"}
    decision = decide(run.call("post", "c1"), {"x": 1}, repair=repair)
    assert list_questions(gate) == [("mail", {"to": "me"})]
    assert decision.edited and decision.args == {"to": "you"}  # a person's edit outranks the repair


def test_a_call_that_cannot_be_repaired_ends_without_a_question(run: Run, gate: Gate, decide: Any) -> None:
    decision = decide(run.call("get_weather", "c1"), {"city": 5})
    assert (decision.effect, decision.code) == ("deny", "invalid_input") and "/city" in decision.text
    assert decide(run.call("fly", "c2"), {}).code == "no_such_tool"
    assert run.flush(PATIENCE)
    assert gate.calls == [] and gate.stages().count("tool.input.invalid") == 2


def test_an_input_may_be_written_again_once(run: Run, gate: Gate, decide: Any) -> None:
    denials: list[Any] = []

    def reask(denial: Any) -> Any:
        denials.append(denial.raw["places"][0]["pointer"])
        return {"city": "Rome"}

    decision = decide(run.call("get_weather", "c1"), {"city": 5}, reask=reask)
    assert decision.allowed and decision.args == {"city": "Rome"} and denials == ["/city"]
    decision = decide(run.call("get_weather", "c2"), {"city": 5}, reask=lambda denial: {"city": 6})
    assert decision.code == "invalid_input" and len(gate.calls) == 1


def test_a_form_is_no_tool_that_a_run_has_to_offer(run: Run, gate: Gate, decide: Any) -> None:
    assert decide(run.call(FORM, "c1"), {"message": "Which?"}).allowed


@loop_over(
    ("args", "code"),
    [({"a": 2**53}, "invalid_args"), ({"a": object()}, "invalid_args"), ({"a": float("nan")}, "invalid_args")],
)
def test_arguments_that_cannot_be_judged_are_denied_and_shown(args: Any, code: str) -> None:
    with Gate() as gate, Toolcards(gate.url, "key").run("r1", linger=1) as run:
        decision = run.call("bash", "c1").decision_now(args)
        assert (decision.effect, decision.code) == ("deny", code) and run.flush(PATIENCE)
        assert gate.calls == [] and "tool.input.invalid" in gate.stages()


def test_a_call_is_submitted_once_even_after_a_denial(run: Run, gate: Gate, decide: Any) -> None:
    call = run.call("wipe", "c1")
    assert decide(call, {}).code == "rule_deny"
    assert decide(call, {}).code == "call_id_reused" and len(gate.calls) == 1


def test_allowed_returns_what_to_run_or_raises(run: Run, gate: Gate) -> None:
    args = {"city": "Rome"}
    assert run.call("get_weather", "c1").allowed_now(args) is args
    assert asyncio.run(run.call("get_weather", "c2").allowed({"City": "Rome"})) == args
    gate.edited = {"to": "you"}
    assert run.call("mail", "c3").allowed_now({"to": "me"}) == {"to": "you"}
    for call_id in ("c4", "c5"):
        with pytest.raises(Denied, match="The test says deny") as raised:
            if call_id == "c4":
                run.call("wipe", call_id).allowed_now({})
            else:
                asyncio.run(run.call("wipe", call_id).allowed({}))
        assert raised.value.decision.code == "rule_deny"
