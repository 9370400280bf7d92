"""Goose's hooks: what of them is sent, and that only an answer to the call lets it run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.hooks import make_options
from toolcards.hook_relay import relay

ARGS = {"command": "ls"}
GOOSE = {"session_id": "20261124_1", "matcher_context": None}


def ask_goose(gate: Gate | str, event: str, **more: Any) -> Any:
    value = GOOSE | {"event": event} | more
    return relay(make_options(gate, "goose"), json.dumps(value).encode(), value)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("tool", "decision", "words"), [
    ("bash", "allow", ""), ("silent", "allow", ""), ("edited", "block", "ls -l"), ("wipe", "block", "The test says"),
])  # fmt: skip
def test_goose_gets_a_decision_always(gate: Gate, tool: str, decision: str, words: str) -> None:
    output = ask_goose(gate, "PreToolUse", tool_name=tool, tool_input=ARGS, tool_call_id="call_0")
    assert output["decision"] == decision and words in output.get("reason", "")


def test_gooses_results_find_their_calls_though_its_ids_come_again(gate: Gate, cache: Path) -> None:
    call = {"tool_name": "bash", "tool_input": ARGS, "tool_call_id": "call_0", "working_dir": "/w"}
    for after in ("PostToolUse", "PostToolUseFailure"):
        ask_goose(gate, "PreToolUse", **call)
        assert ask_goose(gate, after, **call) == {}
    bodies = [body for _, body in gate.requests]
    ids = [body["tool_use_id"] for body in bodies]
    assert ids[0] == ids[1] != ids[2] == ids[3] and not any(cache.rglob("*.call_*"))
    assert "do not have the result" in bodies[1]["tool_response"] and "do not say why" in bodies[3]["error"]
    assert bodies[0]["cwd"] == "/w" and bodies[0]["session_id"].startswith("20261124_1-")


@pytest.mark.usefixtures("cache")
def test_a_session_of_goose_on_another_computer_is_another_run(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_goose(gate, "SessionStart")
    monkeypatch.setattr("platform.node", lambda: "another")
    ask_goose(gate, "SessionStart")
    assert len({body["session_id"] for _, body in gate.requests}) == 2


@pytest.mark.usefixtures("cache")
def test_a_goose_tool_without_parameters_is_judged_with_none(gate: Gate) -> None:
    assert ask_goose(gate, "PreToolUse", tool_name="bash") == {"decision": "allow"}
    assert gate.requests[-1][1]["tool_input"] == {}
    with pytest.raises(ValueError, match="not an object"):
        ask_goose(gate, "PreToolUse", tool_name="bash", tool_input=["ls"])
    with pytest.raises(ValueError, match="unknown event"):
        ask_goose(gate, "BeforeReadFile")


@pytest.mark.usefixtures("cache")
def test_without_a_server_goose_runs_nothing() -> None:
    assert ask_goose("http://127.0.0.1:9", "PreToolUse", tool_name="bash", tool_input=ARGS)["decision"] == "block"
    assert ask_goose("http://127.0.0.1:9", "Stop") == {}
