"""Hook inputs as real programs write them, through the relay to a real server and its decision."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.support import gating
from tests.support.hook_inputs import options
from tests.support.server import KEY, PATIENCE, Server
from toolcards.hook_relay import relay

CURL = {"command": "curl https://example.com"}
NETWORK = "network-access example.com"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("hooks")) as running:
        yield running


@pytest.fixture(autouse=True)
def _key_and_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NO_SUCH_KEY", KEY)


def send(site: Server, program: str, value: dict[str, Any], event: str = "") -> dict[str, Any]:
    """Send one hook input by the relay; return its output."""
    words = options(site.base, program)
    words.event = event
    return relay(words, json.dumps(value).encode(), value)


def send_and_vote(site: Server, program: str, value: dict[str, Any], decision: str) -> tuple[dict[str, Any], Any]:
    """Send one hook input that is held, and answer it; return its output and the call that waited."""
    outputs: SimpleQueue[dict[str, Any]] = SimpleQueue()
    thread = threading.Thread(target=lambda: outputs.put(send(site, program, value)))
    thread.start()
    call = gating.waiting(site, value["session_id"])
    gating.vote(site, value["session_id"], decision)
    output = outputs.get(timeout=PATIENCE)
    thread.join()
    return output, call


def ask_codex(run: str, event: str, **more: Any) -> dict[str, Any]:
    call = {"session_id": run, "hook_event_name": event, "tool_name": "Bash", "tool_input": CURL}
    return call | more


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_permission_request_of_codex_shows_its_description_as_the_reason(site: Server, decision: str) -> None:
    gating.activate(site, {"v": 1, "default": "allow", "rules": []})
    run = f"codex-{decision}"
    assert send(site, "codex", ask_codex(run, "PreToolUse", tool_use_id="call_1")) == {}
    request = ask_codex(run, "PermissionRequest", tool_input={**CURL, "description": NETWORK})
    output, call = send_and_vote(site, "codex", request, decision)
    answer = output["hookSpecificOutput"]["decision"]
    assert (call["call_id"], call["input"], call["approval"]["request_reason"]) == ("call_1", CURL, NETWORK)
    if decision == "approve":
        assert answer == {"behavior": "allow"}
    else:
        assert answer["behavior"] == "deny"
    assert send(site, "codex", request) == output  # the same request again


def test_an_approved_call_of_codex_does_not_answer_a_request_with_a_description(site: Server) -> None:
    gating.activate(site, {"v": 1, "default": "ask", "rules": []})
    run = "codex-further"
    output, _ = send_and_vote(site, "codex", ask_codex(run, "PreToolUse", tool_use_id="call_1"), "approve")
    assert output == {}
    request = ask_codex(run, "PermissionRequest", tool_input={**CURL, "description": NETWORK})
    output, call = send_and_vote(site, "codex", request, "deny")
    assert output["hookSpecificOutput"]["decision"]["behavior"] == "deny"
    assert call["approval"]["request_reason"] == NETWORK
    assert send(site, "codex", request) == output
    plain_request = ask_codex(run, "PermissionRequest")
    assert send(site, "codex", plain_request)["hookSpecificOutput"]["decision"] == {"behavior": "allow"}


GEMINI = {"session_id": "g", "cwd": "/p", "hook_event_name": "BeforeTool"}
COPILOT = {"sessionId": "c", "cwd": "/p", "timestamp": 1}
CLINE = {"hookName": "tool_call", "taskId": "l", "sessionContext": {"rootSessionId": "l"}}
GOOSE = {"event": "PreToolUse", "session_id": "o", "working_dir": "/p"}
CURSOR = {"conversation_id": "u", "hook_event_name": "beforeMCPExecution"}
CODEX = {"session_id": "x", "cwd": "/p", "hook_event_name": "PreToolUse", "tool_use_id": "call_1"}
CLAUDE = CODEX | {"session_id": "a", "tool_use_id": "toolu_1"}
READS = ({"default": "deny", "unknown_tool": "deny",
          "rules": [{"id": "read", "effect": "allow", "match": {"kind": ["read", "search", "think"]}}]})  # fmt: skip


def call_gemini(tool: str, **more: Any) -> Any:
    return "gemini-cli", GEMINI | {"tool_name": tool, "tool_input": {}} | more, ""


def call_copilot(tool: str) -> Any:
    return "copilot", COPILOT | {"toolName": tool, "toolArgs": "{}"}, "preToolUse"


def call_cline(tool: str) -> Any:
    return "cline", CLINE | {"tool_call": {"id": "1", "name": tool, "input": {}}}, ""


def call_goose(tool: str) -> Any:
    return "goose", GOOSE | {"tool_name": tool, "tool_input": {}}, ""


def call_cursor(tool: str) -> Any:
    return "cursor", CURSOR | {"tool_name": tool, "tool_input": "{}"}, ""


def call_codex(tool: str) -> Any:
    return "codex", CODEX | {"tool_name": tool, "tool_input": {}}, ""


def call_claude(tool: str, **more: Any) -> Any:
    return "claude-code", CLAUDE | {"tool_name": tool, "tool_input": {}} | more, ""


@pytest.mark.parametrize(("words", "is_reading"), [
    (call_gemini("read_file"), True), (call_gemini("list_directory"), True), (call_gemini("write_file"), False),
    (call_gemini("Read"), False),  # a name of Claude Code
    (call_gemini("read_file", mcp_context={"server_name": "evil", "tool_name": "read_file"}), False),
    (call_gemini("read_file", mcp_context={"server_name": "a__b", "tool_name": "read_file"}), False),
    (call_gemini("read_file", mcp_context={}), False),
    (call_copilot("view"), True), (call_copilot("grep"), True), (call_copilot("edit"), False),
    (call_copilot("read_file"), True), (call_copilot("read-file"), False),  # the tool `file` of a server `read`
    (call_cline("read_file"), True), (call_cline("search_files"), True), (call_cline("write_to_file"), False),
    (call_cline("evil__read_file"), False),
    (call_goose("developer__tree"), True), (call_goose("developer__shell"), False),
    (call_goose("evil__developer__tree"), False), (call_goose("Read"), False),
    (call_cursor("Read"), False), (call_cursor("MCP:Read"), False), (call_cursor("MCP:evil:Read"), False),
    (call_codex("read_file"), True), (call_codex("mcp__evil__read_file"), False), (call_codex("Read"), False),
    (call_claude("Read"), True), (call_claude("list_directory"), False),
    (call_claude("Read", mcp_server={"name": "evil"}), False), (call_claude("mcp__evil__Read"), False),
])  # fmt: skip
def test_each_program_is_judged_by_its_own_tools(site: Server, words: Any, is_reading: bool) -> None:
    gating.activate(site, {"v": 1, **READS})
    program, value, event = words
    run = secrets.token_hex(8)
    places = {"gemini-cli": "session_id", "copilot": "sessionId", "goose": "session_id", "cursor": "conversation_id"}
    if program == "cline":
        value = value | {"sessionContext": {"rootSessionId": run}}
    else:
        value = value | {places.get(program, "session_id"): run}
    output = json.dumps(send(site, program, value, event))
    is_denied = any(sign in output for sign in ('"deny"', '"block"', '"cancel": true'))
    assert is_denied is not is_reading, output


def test_a_run_cannot_become_another_program(site: Server) -> None:
    gating.activate(site, {"v": 1, **READS})
    hooks = "/api/v1/hooks/claude-code"
    value = CLAUDE | {"session_id": "two-programs", "tool_name": "list_directory", "tool_input": {}}
    decisions = [
        site.request("POST", f"{hooks}?program={program}", value | {"tool_use_id": str(number)})[1]
        for number, program in enumerate(("claude-code", "gemini-cli", "", "no-such-program"))
    ]
    answers = [decision["hookSpecificOutput"]["permissionDecision"] for decision in decisions]
    assert answers == ["deny"] * 4


@pytest.mark.parametrize(("mcp_server", "effect"), [
    ({"name": "docs__prod", "source": "project"}, "deny"), ({"name": "docs"}, "allow"), (None, "deny"),
    ("docs", "deny"),
])  # fmt: skip
def test_the_server_of_a_tool_is_the_one_that_claude_code_names(site: Server, mcp_server: Any, effect: str) -> None:
    rule = {"id": "docs", "effect": "allow", "match": {"source": ["docs"]}}
    gating.activate(site, {"v": 1, "default": "deny", "rules": [rule]})
    run = secrets.token_hex(8)
    value = CLAUDE | {"session_id": run, "tool_name": "mcp__docs__prod__get_item", "tool_input": {"x": 1}}
    output = send(site, "claude-code", value | ({"mcp_server": mcp_server} if mcp_server is not None else {}))
    assert output["hookSpecificOutput"]["permissionDecision"] == effect
    (call,) = gating.calls(site, run).values()
    assert call["tool"]["source"] == (mcp_server["name"] if isinstance(mcp_server, dict) else "")
