"""The step log: one line per phase with ids, hashes and timings, written once what it tells is committed."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from toolcards import gate, hooks
from toolcards.core.calls import facts as f
from toolcards.gate import call_trace
from toolcards.gate.writer import group_commit
from toolcards.models import Event, Source, ToolCall
from toolcards.notifications import subscriptions

pytestmark = pytest.mark.django_db
SECRET = "ghp_" + "a1B2" * 9
TOOLS = [
    {"name": "send_mail", "input_schema": {"type": "object", "additionalProperties": False, "properties": {"to": {}}}}
]


@pytest.fixture(autouse=True)
def _unplugged() -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    hooks.clear()


@pytest.fixture
def lines(caplog: Any) -> Callable[[], list[dict[str, Any]]]:
    """Give `lines()`: what the step log says so far."""
    caplog.set_level("INFO", logger="toolcards.steps")
    return lambda: [record.msg for record in caplog.records if record.name == "toolcards.steps"]


def claim(source: Source, payload: dict[str, Any]) -> None:
    from toolcards.gate.approvals import permits

    body = {"call_id": payload["call_id"], "args_sha256": payload["args_sha256"]}
    group_commit.execute(permits.ClaimPermit(source, payload["permit"]["id"], body))


def test_a_call_that_a_person_approved_from_its_input_to_its_result(
    policy: Any, source: Source, an_approver: Any, ballot: Any, a_run: Any, lines: Any
) -> None:
    policy({"rules": [{"id": "ask", "effect": "ask", "match": {"tool": ["send_mail"]}}]})
    a_run("r", f.RunStarted(tools=TOOLS))
    hooks.register(type("Quiet", (), {"before": lambda self, call: None})(), "quiet")
    request = gate.DecisionRequest(run="r", call_id="c", tool="Send-Mail", args={"To": SECRET})
    gate.decide(source, request)
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    claim(source, gate.decide(source, request))
    from toolcards.gate.agents import results

    group_commit.execute(results.RecordResult(source, "r", "c", {"outcome": "ok", "output": f"sent to {SECRET}"}))
    entries = [line for line in lines() if line.get("call") == "c"]
    assert [(line["phase"], line["outcome"]) for line in entries] == [
        ("resolve", "ok"), ("repair", "repaired"), ("repair", "done"), ("before", "done"), ("gate", "ask"),
        ("ask", "waiting"), ("answer", "approved"), ("claim", "claimed"), ("execute", "ok"),
    ]  # fmt: skip
    assert {(line["run"], line["attempt"]) for line in entries} == {("r", 1)} and all(
        "started" in line for line in entries
    )
    resolve, repair, _, _, decision, value, answer, permit_claim, execution = entries
    assert repair["repair"] == {"method": "tool name, field name"} and repair["redactions"] == 1
    assert resolve["bytes"] == len(json.dumps({"To": SECRET})) and resolve["in_sha"] != repair["in_sha"]
    assert (decision["policy_version"], decision["rule_ids"], decision["by"]) == (1, ["ask"], {"kind": "rule"})
    assert (answer["approver"], answer["by"]) == ("ann", {"kind": "human"})
    assert answer["latency_to_decide"] >= 0 and value["approval"] == permit_claim["approval"]
    assert execution["out_sha"] == hashlib.sha256(f"sent to {SECRET}".encode()).hexdigest() and execution["ms"] >= 0
    assert SECRET not in str(entries) and "sent to" not in str(entries)


def test_what_is_rolled_back_is_not_in_the_log(a_run: Any, source: Source, lines: Any) -> None:
    from tests.support.gate_commands import RecordFacts

    a_run("r")
    before = len(lines())

    class Breaks(RecordFacts):
        def apply(self, tx: Any) -> None:
            super().apply(tx)
            tx.after_write.append(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        group_commit.execute(Breaks(source, "r", [f.InputReady("c", "bash", {}, True)]))
    assert len(lines()) == before


def test_a_step_ends_with_its_calls_its_results_and_the_invalid_ones(a_run: Any, lines: Any) -> None:
    a_run(
        "r", f.StepStarted(), f.InputReady("a", "t", {"x": SECRET}, True), f.OutputReady("a", SECRET),
        f.InputReady("b", "t", {}, True), f.OutputFailed("b", SECRET, "timeout"),
        f.InputInvalid("c", "t", SECRET, SECRET),
        f.InputReady("d", "t", {}, True), f.StepFinished(), f.RunEnded(),
    )  # fmt: skip
    (step,) = [one for one in call_trace.iterate_steps(Event.objects.order_by("seq")) if one.phase == "step"]
    assert step.more == {"step": 1, "calls": ["a", "b", "c", "d"], "results": 2, "invalid": ["c"]}
    (line,) = [one for one in lines() if one["phase"] == "step"]
    assert {name: line[name] for name in step.more} == step.more
    assert SECRET not in str(lines()) and SECRET not in str(
        list(call_trace.iterate_steps(Event.objects.order_by("seq")))
    )


def test_the_page_tells_what_the_log_tells(a_run: Any, lines: Any) -> None:
    a_run("r", f.InputReady("a", "t", {}, True), f.OutputFailed("a", "", "timeout"), f.RunEnded(outcome="error"))
    story = [step.fields for step in call_trace.iterate_steps(Event.objects.order_by("seq"))]
    assert [{k: v for k, v in line.items() if k in one} for line, one in zip(lines(), story, strict=True)] == story


def test_a_runs_steps_are_a_story_without_arguments(a_run: Any, client: Client, a_person: Any) -> None:
    a_run(
        "r", f.StepStarted(), f.InputReady("c", "bash", {"command": "cat hunter2"}, True), f.OutputReady("c", "hunter2"),
        f.InputInvalid("d", "nope", {"x": "hunter2"}, "no", "no_such_tool"), f.StepFinished(), f.RunEnded(outcome="aborted"),
    )  # fmt: skip
    steps = list(call_trace.iterate_steps(Event.objects.order_by("seq")))
    assert [step.phase for step in steps] == ["run", "resolve", "execute", "resolve", "step", "run"]
    assert steps[4].more == {"step": 1, "calls": ["c", "d"], "results": 1, "invalid": ["d"]}
    assert "hunter2" not in str([step.fields for step in steps])
    client.force_login(a_person("viewer"))
    page = client.get("/runs/r/?tab=steps").content.decode()
    assert "Tool ran" in page and "hunter2" not in page


def test_every_phase_is_one_line_in_the_log(a_run: Any, caplog: Any) -> None:
    with caplog.at_level("INFO", logger="toolcards.steps"):
        a_run("r", f.InputReady("c", "bash", {"command": "ls"}, True), f.OutputFailed("c", "hunter2", "timeout"))
    lines = [record.msg for record in caplog.records if record.name == "toolcards.steps"]
    assert [line["phase"] for line in lines] == ["run", "resolve", "execute"]
    assert (lines[2]["run"], lines[2]["call"], lines[2]["code"], lines[2]["outcome"]) == ("r", "c", "timeout", "error")
    assert "hunter2" not in str(lines)
