"""Cline's hooks: what of them is sent, and that only an answer to the call lets it run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_gate import Gate, plain
from tests.support.hooks import make_options
from toolcards.hook_relay import relay

ARGS = {"command": "ls"}
CLINE = {
    "taskId": "conv_1", "sessionContext": {"rootSessionId": "k-1"}, "agent_id": "agent_1", "parent_agent_id": None,
    "workspaceRoots": ["/"],
}  # fmt: skip


def ask_cline(gate: Gate | str, event: str, **more: Any) -> Any:
    value = CLINE | {"hookName": event} | more
    return relay(make_options(gate, "cline"), json.dumps(value).encode(), value)


def cline_call(tool: str = "bash", call_id: str = "call_0", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "name": tool, "input": ARGS, **more}


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("tool", "expected"), [
    ("bash", {"cancel": False}), ("silent", {"cancel": False}),
    ("edited", {"cancel": False, "overrideInput": {"command": "ls -l"}}),
    ("wipe", {"cancel": True, "errorMessage": "The test says deny."}),
])  # fmt: skip
def test_cline_gets_the_decision_in_its_own_form(gate: Gate, tool: str, expected: Any) -> None:
    assert ask_cline(gate, "tool_call", tool_call=cline_call(tool)) == expected


def test_clines_ids_that_come_again_are_calls_of_their_own(gate: Gate, cache: Path) -> None:
    for _ in range(2):
        ask_cline(gate, "tool_call", tool_call=cline_call())
        ask_cline(gate, "tool_result", tool_result=cline_call(output=[{"result": "a", "success": True}]))
    ids = [body["tool_use_id"] for _, body in gate.requests]
    assert ids[0] == ids[1] != ids[2] == ids[3] and not any(cache.rglob("*.call_*"))
    assert gate.requests[1][1]["tool_response"] == [{"result": "a", "success": True}]


@pytest.mark.usefixtures("cache")
def test_the_result_of_a_call_that_was_edited_in_cline_finds_its_call(gate: Gate) -> None:
    ask_cline(gate, "tool_call", tool_call=cline_call("edited"))
    ask_cline(gate, "tool_result", tool_result=cline_call("edited") | {"input": {"command": "ls -l"}, "output": "a"})
    assert len({body["tool_use_id"] for _, body in gate.requests}) == 1


@pytest.mark.usefixtures("cache")
def test_a_sub_agent_of_cline_belongs_to_its_parents_run_and_does_not_end_it(gate: Gate) -> None:
    subagent = {"agent_id": "agent_2", "parent_agent_id": "agent_1", "taskId": "conv_2"}
    ask_cline(gate, "tool_call", tool_call=cline_call(), **subagent)
    body = gate.requests[-1][1]
    assert (body["session_id"], body["agent_id"]) == ("k-1", "agent_2")
    assert ask_cline(gate, "session_shutdown", **subagent) == {} and len(gate.requests) == 1


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("event", "more", "expected"), [
    ("agent_start", {}, {"hook_event_name": "SessionStart"}),
    ("prompt_submit", {"userPromptSubmit": {"prompt": "Hi"}}, {"hook_event_name": "UserPromptSubmit", "prompt": "Hi"}),
    ("agent_end", {"turn": {"outputText": "Bye"}}, {"hook_event_name": "SessionEnd"}),
    ("agent_abort", {"reason": 7}, {"hook_event_name": "SessionEnd"}),
    ("session_shutdown", {"reason": "exit"}, {"hook_event_name": "SessionEnd", "reason": "exit"}),
])  # fmt: skip
def test_clines_other_events_are_those_of_the_run(gate: Gate, event: str, more: Any, expected: Any) -> None:
    gate.tamper = lambda stage, honest: plain({"hookSpecificOutput": {"permissionDecision": "deny"}})
    assert ask_cline(gate, event, **more) == {}  # never a `cancel`, which would end Cline's run
    assert gate.requests[-1][1].items() >= expected.items()


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("change", [
    {"hookName": "PreToolUse"}, {"hookName": None}, {"tool_call": None}, {"tool_call": {"name": "bash"}},
    {"tool_call": {"name": "bash", "input": "ls"}},
])  # fmt: skip
def test_a_cline_input_that_cannot_be_translated_blocks(gate: Gate, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not|unknown event"):
        ask_cline(gate, "tool_call", **change)
    assert not gate.requests


@pytest.mark.usefixtures("cache")
def test_without_a_server_cline_runs_nothing_and_its_reports_decide_nothing() -> None:
    assert ask_cline("http://127.0.0.1:9", "tool_call", tool_call=cline_call())["cancel"] is True
    assert ask_cline("http://127.0.0.1:9", "agent_end") == {}


def wait_for_person(stage: str, honest: Any) -> Any:
    """Answer as the server does when no one has answered before the hook's limit."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "Waiting."}
    return plain(honest | {"hookSpecificOutput": output, "toolcards": honest["toolcards"] | {"waiting": True}})


@pytest.mark.usefixtures("cache")
def test_the_same_call_of_cline_comes_again_under_the_id_of_its_question_once(gate: Gate) -> None:
    gate.tamper = wait_for_person
    for _ in range(2):
        assert ask_cline(gate, "tool_call", tool_call=cline_call()) == {"cancel": True, "errorMessage": "Waiting."}
    for event in ("agent_abort", "prompt_submit"):  # its run continues, so the question stays
        assert ask_cline(gate, event) == {} and len(gate.requests) == 2
    gate.tamper = lambda stage, honest: None
    for _ in range(2):
        assert ask_cline(gate, "tool_call", tool_call=cline_call()) == {"cancel": False}
    ids = [body["tool_use_id"] for _, body in gate.requests]
    assert ids[0] == ids[1] == ids[2] != ids[3]
    ask_cline(gate, "agent_end")
    assert gate.requests[-1][1]["hook_event_name"] == "SessionEnd"


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("more", "call"), [
    ({}, {"input": {"command": "ls "}}), ({}, {"name": "sh"}), ({"workspaceRoots": ["/etc"]}, {}),
    ({"agent_id": "agent_2", "parent_agent_id": "agent_1"}, {}), ({"sessionContext": {"rootSessionId": "k-2"}}, {}),
])  # fmt: skip
def test_another_call_of_cline_never_has_the_id_of_a_question(gate: Gate, more: Any, call: Any) -> None:
    gate.tamper = wait_for_person
    ask_cline(gate, "tool_call", tool_call=cline_call())
    ask_cline(gate, "tool_call", tool_call=cline_call() | call, **more)
    assert len({body["tool_use_id"] for _, body in gate.requests}) == 2


@pytest.mark.usefixtures("cache")
def test_a_question_of_cline_stays_while_the_server_is_away(gate: Gate) -> None:
    gate.tamper = wait_for_person
    ask_cline(gate, "tool_call", tool_call=cline_call())
    assert ask_cline("http://127.0.0.1:9", "tool_call", tool_call=cline_call())["cancel"] is True
    ask_cline(gate, "tool_call", tool_call=cline_call())
    assert len({body["tool_use_id"] for _, body in gate.requests}) == 1
