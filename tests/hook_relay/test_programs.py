"""Each program gets the decision in its own form, and what cannot be translated blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.hook_inputs import ARGS, options, send_hook
from toolcards.hook_relay import relay
from toolcards.hook_relay.programs import PROGRAMS


@pytest.mark.parametrize(("program", "tool", "expected"), [
    ("claude-code", "bash", {"behavior": "allow", "updatedInput": ARGS}),
    ("claude-code", "edited", {"behavior": "allow", "updatedInput": {"command": "ls -l"}}),
    ("claude-code", "wipe", {"behavior": "deny", "message": "No."}),
    ("codex", "bash", {"behavior": "allow"}),
    ("codex", "wipe", {"behavior": "deny", "message": "No."}),
    ("claude-code", "silent", None), ("codex", "silent", None),
])  # fmt: skip
def test_where_the_program_asks(gate: Gate, program: str, tool: str, expected: Any) -> None:
    output = send_hook(gate, "PermissionRequest", program, tool_name=tool)
    assert output.get("hookSpecificOutput", {}).get("decision") == expected


def test_codex_takes_no_edit_where_it_asks_so_that_is_a_deny_that_says_it(gate: Gate) -> None:
    decision = send_hook(gate, "PermissionRequest", "codex", tool_name="edited")["hookSpecificOutput"]["decision"]
    assert decision["behavior"] == "deny" and '"ls -l"' in decision["message"]


GEMINI = {"session_id": "g-1", "cwd": "/", "tool_name": "bash", "tool_input": ARGS}
COPILOT = {"sessionId": "c-1", "cwd": "/", "toolName": "bash", "toolArgs": ARGS}


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "toolcards" / "hooks"


def ask_gemini(gate: Gate | str, event: str, **more: Any) -> Any:
    value = GEMINI | {"hook_event_name": event} | more
    return relay(options(gate, "gemini-cli"), json.dumps(value).encode(), value)


def ask_copilot(gate: Gate | str, event: str, **more: Any) -> Any:
    value, words = COPILOT | more, options(gate, "copilot")
    words.event = event
    return relay(words, json.dumps(value).encode(), value)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("tool", "gemini", "copilot"), [
    ("bash", {}, {"permissionDecision": "allow", "permissionDecisionReason": "The test says allow."}),
    ("edited", {"decision": "allow", "hookSpecificOutput": {"hookEventName": "BeforeTool",
                                                            "tool_input": {"command": "ls -l"}}},
     {"permissionDecision": "allow", "permissionDecisionReason": "The test says allow.",
      "modifiedArgs": {"command": "ls -l"}}),
    ("wipe", {"decision": "deny", "reason": "The test says deny."},
     {"permissionDecision": "deny", "permissionDecisionReason": "The test says deny."}),
    ("silent", {}, {}),
])  # fmt: skip
def test_each_program_gets_the_decision_in_its_own_form(gate: Gate, tool: str, gemini: Any, copilot: Any) -> None:
    assert ask_gemini(gate, "BeforeTool", tool_name=tool) == gemini
    assert ask_copilot(gate, "preToolUse", toolName=tool) == copilot


CURSOR = {"conversation_id": "u-1", "generation_id": "g", "workspace_roots": ["/"]}


def ask_cursor(gate: Gate | str, event: str, **more: Any) -> Any:
    value = CURSOR | {"hook_event_name": event} | more
    return relay(options(gate, "cursor"), json.dumps(value).encode(), value)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("tool", "permission", "words"),
    [
        ("bash", "allow", ""),
        ("wipe", "deny", "The test says deny."),
        ("silent", "ask", ""),
        ("edited", "deny", "ls -l"),
    ],
)
def test_cursor_gets_a_permission(gate: Gate, tool: str, permission: str, words: str) -> None:
    gate.effects[f"mcp__{tool}"] = gate.effects[tool]
    output = ask_cursor(gate, "beforeMCPExecution", tool_name=tool, tool_input=json.dumps(ARGS))
    assert output["permission"] == permission and words in output.get("agent_message", "")
    assert gate.requests[-1][1]["tool_input"] == ARGS


def test_cursors_commands_are_judged_and_find_their_results(gate: Gate, cache: Path) -> None:
    gate.effects["Shell"] = "allow"
    assert ask_cursor(gate, "beforeShellExecution", command="ls", cwd="/") == {"permission": "allow"}
    assert ask_cursor(gate, "afterShellExecution", command="ls", output="a", duration=3) == {}
    before, after = (body for _, body in gate.requests)
    assert (before["tool_name"], before["tool_input"], after["tool_response"]) == ("Shell", {"command": "ls"}, "a")
    assert before["tool_use_id"] == after["tool_use_id"] and not any(cache.rglob("*.call_*"))
    ask_cursor(gate, "beforeMCPExecution", tool_name="MCP:files:rm", tool_input={})
    assert gate.requests[-1][1]["tool_name"] == "mcp__files__rm"


@pytest.mark.usefixtures("cache")
def test_cursor_runs_nothing_without_a_server_and_still_takes_prompts() -> None:
    assert ask_cursor("http://127.0.0.1:9", "beforeShellExecution", command="ls")["permission"] == "deny"
    assert ask_cursor("http://127.0.0.1:9", "beforeSubmitPrompt", prompt="x") == {"continue": True}
    with pytest.raises(ValueError, match="not an object"):
        ask_cursor("http://127.0.0.1:9", "beforeMCPExecution", tool_name="x", tool_input=None)


@pytest.mark.usefixtures("cache")
def test_an_edit_that_gemini_would_merge_into_another_call_is_a_denial_that_says_it(gate: Gate) -> None:
    output = ask_gemini(gate, "BeforeTool", tool_name="edited", tool_input=ARGS | {"force": True})
    assert output["decision"] == "deny" and '"ls -l"' in output["reason"]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("change", [{"tool_input": "ls"}, {"tool_input": None}, {"hook_event_name": "before_tool"}])
def test_a_gemini_input_that_cannot_be_translated_blocks(gate: Gate, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not|unknown event"):
        ask_gemini(gate, "BeforeTool", **change)
    assert not gate.requests


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("event", ["", "PreToolUse", "pretooluse"])
def test_a_copilot_event_that_is_not_known_blocks(gate: Gate, event: str) -> None:
    with pytest.raises(ValueError, match="unknown event"):
        ask_copilot(gate, event)


def test_copilot_arguments_that_come_as_text_are_judged_as_an_object(gate: Gate, cache: Path) -> None:
    assert ask_copilot(gate, "preToolUse", toolArgs=json.dumps(ARGS))["permissionDecision"] == "allow"
    assert gate.requests[-1][1]["tool_input"] == ARGS
    ask_copilot(gate, "postToolUse", toolResult={"resultType": "success", "textResultForLlm": "x"})
    assert gate.requests[-1][1]["tool_use_id"] == gate.requests[0][1]["tool_use_id"] and not any(
        cache.rglob("*.call_*")
    )


@pytest.mark.usefixtures("cache")
def test_a_tool_of_an_mcp_server_is_judged_with_its_server(gate: Gate) -> None:
    ask_gemini(gate, "BeforeTool", tool_name="mcp_files_rm", mcp_context={"server_name": "files", "tool_name": "rm"})
    assert gate.requests[-1][1]["tool_name"] == "mcp__files__rm"


def test_results_find_their_calls_the_newest_of_equal_ones_first(gate: Gate, cache: Path) -> None:
    for _ in range(2):
        ask_gemini(gate, "BeforeTool")
    ask_gemini(gate, "BeforeTool", tool_input={"command": "pwd"})
    for _ in range(3):
        ask_gemini(gate, "AfterTool", tool_response={"llmContent": "x"})
    ids = [hook["tool_use_id"] for _, hook in gate.requests]
    assert ids[3:5] == [ids[1], ids[0]]
    assert ids[5] not in ids[:5]  # a result of a call that no hook allowed
    ask_gemini(gate, "SessionEnd", reason="exit")
    assert not any(cache.iterdir())


@pytest.mark.usefixtures("cache")
def test_a_denied_call_stays_denied_when_its_failure_is_reported(gate: Gate) -> None:
    ask_copilot(gate, "preToolUse", toolName="wipe")
    assert ask_copilot(gate, "postToolUseFailure", toolName="wipe", error="denied") == {}
    assert gate.stages() == ["hook"]


@pytest.mark.usefixtures("cache")
def test_without_a_server_no_program_runs_anything() -> None:
    assert ask_gemini("http://127.0.0.1:9", "BeforeTool")["decision"] == "deny"
    assert ask_copilot("http://127.0.0.1:9", "preToolUse")["permissionDecision"] == "deny"
    assert "AfterTool" not in json.dumps(ask_copilot("http://127.0.0.1:9", "agentStop"))


@pytest.mark.usefixtures("cache")
def test_the_folder_of_the_workspace_is_passed_on(gate: Gate) -> None:
    for more, folder in (({"cwd": "/a/b"}, "/a/b"), ({"cwd": ""}, "/"), ({"cwd": "", "workspace_roots": []}, None)):
        ask_cursor(gate, "beforeMCPExecution", tool_name="MCP:files:rm", tool_input={}, **more)
        assert gate.requests[-1][1].get("cwd") == folder


def test_the_folder_of_a_shell_that_keeps_it_between_calls_is_passed_on_only_if_it_is_named() -> None:
    shell = CURSOR | {"hook_event_name": "beforeShellExecution", "command": "ls"}
    translate = PROGRAMS["cursor"].translate
    assert [(translate(shell | more, "") or {}).get("cwd") for more in ({}, {"cwd": "/a"})] == [None, "/a"]
    copilot = {"sessionId": "s", "cwd": "/a", "toolArgs": {}}
    calls = [PROGRAMS["copilot"].translate(copilot | {"toolName": tool}, "preToolUse") for tool in ("bash", "edit")]
    assert [(call or {})["cwd"] for call in calls] == [None, "/a"]


def test_the_folder_of_a_codex_command_is_passed_on_only_if_its_arguments_name_it() -> None:
    hook = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": "/a", "tool_input": {"command": "rm x"}}
    translate = PROGRAMS["codex"].translate
    assert "cwd" not in (translate(hook, "") or {})
    assert (translate(hook | {"tool_input": {"command": "ls", "workdir": "/b"}}, "") or {})["cwd"] == "/a"
    assert (translate(hook | {"tool_name": "apply_patch"}, "") or {})["cwd"] == "/a"
    assert (translate({"hook_event_name": "SessionStart", "cwd": "/a"}, "") or {})["cwd"] == "/a"
