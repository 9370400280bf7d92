"""`toolcards hook`: what it lets run is an answer to exactly these bytes; everything else is a deny."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bad_answers import BadAnswer, rows
from tests.support.fake_gate import Answer, Gate, plain
from tests.support.server import PATIENCE
from tests.support.silent_server import Hole
from tests.support.tables import loop_over
from toolcards import hook_relay
from toolcards.hook_relay import relay

ROOT = Path(__file__).parents[1]
ARGS = {"command": "ls"}
CALL = {"session_id": "s-1", "tool_name": "bash", "tool_input": ARGS, "tool_use_id": "toolu_1"}
EVENTS = ["PreToolUse", "PermissionRequest"]


def options(gate: Gate | str, program: str = "claude-code", limit: float = PATIENCE) -> Namespace:
    url = gate if isinstance(gate, str) else gate.url
    return Namespace(program=program, url=url, key_env="NO_SUCH_KEY", key_file=None, limit=limit)


def hook(event: str, **more: Any) -> dict[str, Any]:
    call = dict(CALL)
    if event == "PermissionRequest":
        call.pop("tool_use_id")  # it names none
    return call | {"hook_event_name": event} | more


def said(gate: Gate | str, event: str, program: str = "claude-code", *, limit: float = PATIENCE, **more: Any) -> Any:
    result = hook(event, **more)
    return relay(options(gate, program, limit), json.dumps(result).encode(), result)


def lets_run(output: dict[str, Any]) -> bool:
    """Whether the program continues after it: all but a plain deny."""
    result = output.get("hookSpecificOutput", {})
    return result.get("permissionDecision") != "deny" and result.get("decision", {}).get("behavior") != "deny"


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"bash": "allow", "wipe": "deny", "edited": "ask", "silent": "default"}) as running:
        running.edited = {"command": "ls -l"}
        yield running


# ---------------------------------------------------------------- honest answers, in each program's words


@pytest.mark.parametrize(("program", "tool", "expected"), [
    ("claude-code", "bash", {"permissionDecision": "allow", "permissionDecisionReason": "The test says allow."}),
    ("claude-code", "edited", {"permissionDecision": "allow", "permissionDecisionReason": "The test says allow.",
                               "updatedInput": {"command": "ls -l"}}),
    ("claude-code", "wipe", {"permissionDecision": "deny", "permissionDecisionReason": "The test says deny."}),
    ("claude-code", "silent", {}),
    ("codex", "bash", {}),  # it takes an allow only with other arguments
    ("codex", "edited", {"permissionDecision": "allow", "updatedInput": {"command": "ls -l"}}),
    ("codex", "wipe", {"permissionDecision": "deny", "permissionDecisionReason": "The test says deny."}),
    ("codex", "silent", {}),
])  # fmt: skip
def test_before_a_tool(gate: Gate, program: str, tool: str, expected: Any) -> None:
    output = said(gate, "PreToolUse", program, tool_name=tool)
    assert output == ({"hookSpecificOutput": {"hookEventName": "PreToolUse", **expected}} if expected else {})


@pytest.mark.parametrize(("program", "tool", "expected"), [
    ("claude-code", "bash", {"behavior": "allow"}),
    ("claude-code", "edited", {"behavior": "allow", "updatedInput": {"command": "ls -l"}}),
    ("claude-code", "wipe", {"behavior": "deny", "message": "No."}),
    ("codex", "bash", {"behavior": "allow"}),
    ("codex", "wipe", {"behavior": "deny", "message": "No."}),
    ("claude-code", "silent", None), ("codex", "silent", None),
])  # fmt: skip
def test_where_the_program_asks(gate: Gate, program: str, tool: str, expected: Any) -> None:
    output = said(gate, "PermissionRequest", program, tool_name=tool)
    assert output.get("hookSpecificOutput", {}).get("decision") == expected


def test_codex_takes_no_edit_where_it_asks_so_that_is_a_deny_that_says_it(gate: Gate) -> None:
    decision = said(gate, "PermissionRequest", "codex", tool_name="edited")["hookSpecificOutput"]["decision"]
    assert decision["behavior"] == "deny" and '"ls -l"' in decision["message"]


@pytest.mark.parametrize("event", ["PostToolUse", "UserPromptSubmit", "Stop", "SessionStart"])
def test_what_only_tells_decides_nothing_whatever_the_server_answers(gate: Gate, event: str) -> None:
    gate.tamper = lambda stage, honest: plain({"decision": "block", "hookSpecificOutput": {"additionalContext": "x"}})
    assert said(gate, event) == {} and gate.stages() == ["hook"]


# ---------------------------------------------------------------- bad answers


@loop_over("event", EVENTS)
@loop_over("row", [row for row, _ in rows("decide") if row.stages == ("decide", "poll", "claim")], ids=str)
def test_a_bad_envelope_lets_nothing_run(event: str, row: BadAnswer) -> None:
    with Gate({"bash": "allow"}, tamper=lambda stage, honest: row.make(honest)) as gate:
        assert not lets_run(said(gate, event)) and gate.stages() == ["hook"]


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("row", [row for row, _ in rows("decide", sooner=True)], ids=str)
def test_an_answer_that_does_not_end_lets_nothing_run(
    monkeypatch: pytest.MonkeyPatch, event: str, row: BadAnswer
) -> None:
    monkeypatch.setattr(hook_relay, "MARGIN", 0.3)
    with Gate({"bash": "allow"}, tamper=lambda stage, honest: row.make(honest)) as gate:
        assert not lets_run(said(gate, event, limit=0.1))


WRONG: dict[str, Any] = {
    "no binding": {"toolcards": ...},
    "an empty binding": {"toolcards": {}},
    "a binding that is a text": {"toolcards": "yes"},
    "an answer to other bytes": {"toolcards.answers": "0" * 64},
    "another run": {"toolcards.run": "s-2"},
    "another input": {"toolcards.args_sha256": "0" * 64},
    "no input": {"toolcards.args_sha256": ...},
    "another call's digest": {"toolcards.call_sha256": "0" * 64},
    "no call's digest": {"toolcards.call_sha256": ...},
    "no attempt": {"toolcards.attempt": ...},
    "an attempt below one": {"toolcards.attempt": 0},
    "an attempt that is true": {"toolcards.attempt": True},
    "no tool": {"toolcards.tool": ...},
    "a tool by its name alone": {"toolcards.tool": "bash"},
    "another tool": {"toolcards.tool": {"name": "wipe", "source": ""}},
    "a tool of another server": {"toolcards.tool": {"name": "bash", "source": "elsewhere"}},
    "other arguments than the digest's": {"updated": {"command": "rm -rf /"}},
    "arguments that are no object": {"updated": "rm -rf /"},
    "arguments without a canonical form": {"updated": {"n": 2**60}},
    "a different event": {"hookSpecificOutput.hookEventName": "PostToolUse"},
    "a field nobody knows": {"continue": True},
    "no event": {"hookSpecificOutput.hookEventName": ...},
    "a list": {"hookSpecificOutput": []},
}


def wrong(honest: dict[str, Any], change: dict[str, Any]) -> Answer:
    answer = copy.deepcopy(honest)
    for path, value in change.items():
        where, _, name = path.rpartition(".")
        part = answer[where] if where else answer
        if path == "updated":
            payload = answer["hookSpecificOutput"]
            part, name = payload.get("decision", payload), "updatedInput"
        if value is ...:
            part.pop(name)
        else:
            part[name] = value
    return plain(answer)


@loop_over("event", EVENTS)
@loop_over("name", WRONG)
def test_an_answer_to_something_else_lets_nothing_run(event: str, name: str) -> None:
    with Gate({"bash": "allow"}, tamper=lambda stage, honest: wrong(honest, WRONG[name])) as gate:
        assert not lets_run(said(gate, event))


@pytest.mark.parametrize("decision", ["ask", "ALLOW", "approve", True, None, ["allow"], ...])
def test_an_invalid_decision_lets_nothing_run(decision: Any) -> None:
    change = {"hookSpecificOutput.permissionDecision": decision}
    with Gate({"bash": "allow"}, tamper=lambda stage, honest: wrong(honest, change)) as gate:
        assert not lets_run(said(gate, "PreToolUse"))


def test_silence_for_another_call_is_no_silence_for_this_one(gate: Gate) -> None:
    """`{}` lets Claude Code's own rules decide, so it must be about this call too."""
    gate.tamper = lambda stage, honest: wrong(honest, {"toolcards.call_id": "toolu_2"})
    assert not lets_run(said(gate, "PreToolUse", tool_name="silent"))


def test_without_a_server_nothing_runs_and_what_only_tells_says_so() -> None:
    assert not lets_run(said("http://127.0.0.1:9", "PreToolUse"))
    assert not lets_run(said("http://127.0.0.1:9", "PermissionRequest"))
    assert "Stop" in said("http://127.0.0.1:9", "Stop")["systemMessage"]


def test_a_server_that_hangs_is_given_up_after_a_second_by_what_only_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hook_relay.GIVE_UP == 1.0
    monkeypatch.setattr(hook_relay, "GIVE_UP", 0.2)
    with Hole() as hole:
        assert "did not receive PostToolUse" in said(hole.url, "PostToolUse")["systemMessage"] and hole.swallowed


# ---------------------------------------------------------------- the command


def run(text: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "manage.py"), "hook", *words]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=PATIENCE, env=os.environ | env, cwd="/"
    )


def test_the_command_reads_a_hook_and_prints_its_answer(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("tck_a_key\n")
    text = json.dumps(hook("PreToolUse"))
    for more in (["--key-env", "OURS"], ["--key-file", str(tmp_path / "key")]):
        completed = run(text, "claude-code", "--url", gate.url, *more, OURS="tck_a_key")
        assert json.loads(completed.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow", completed.stderr
        assert (completed.returncode, completed.stderr) == (0, "")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": "\\ud800"}'])
def test_what_cannot_be_read_blocks(text: str) -> None:
    completed = run(text, "claude-code", "--url", "http://127.0.0.1:9")
    assert (completed.returncode, completed.stdout) == (2, "") and "nothing was run" in completed.stderr


def test_words_that_it_does_not_know_block() -> None:
    assert run("{}", "gemini").returncode == 2 and run("{}", "codex", "--no-such").returncode == 2


# ---------------------------------------------------------------- programs with hooks of another form

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
    output = ask_cursor(gate, "beforeMCPExecution", tool_name=tool, tool_input=json.dumps(ARGS))
    assert output["permission"] == permission and words in output.get("agent_message", "")
    assert gate.asked[-1][1]["tool_input"] == ARGS


def test_cursors_commands_are_judged_and_find_their_results(gate: Gate, cache: Path) -> None:
    gate.effects["Shell"] = "allow"
    assert ask_cursor(gate, "beforeShellExecution", command="ls", cwd="/") == {"permission": "allow"}
    assert ask_cursor(gate, "afterShellExecution", command="ls", output="a", duration=3) == {}
    before, after = (body for _, body in gate.asked)
    assert (before["tool_name"], before["tool_input"], after["tool_response"]) == ("Shell", {"command": "ls"}, "a")
    assert before["tool_use_id"] == after["tool_use_id"] and not any(cache.rglob("*.call_*"))
    ask_cursor(gate, "beforeMCPExecution", tool_name="MCP:files:rm", tool_input={})
    assert gate.asked[-1][1]["tool_name"] == "mcp__files__rm"


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
    assert not gate.asked


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("event", ["", "PreToolUse", "pretooluse"])
def test_a_copilot_event_that_is_not_known_blocks(gate: Gate, event: str) -> None:
    with pytest.raises(ValueError, match="unknown event"):
        ask_copilot(gate, event)


def test_copilot_arguments_that_come_as_text_are_judged_as_an_object(gate: Gate, cache: Path) -> None:
    assert ask_copilot(gate, "preToolUse", toolArgs=json.dumps(ARGS))["permissionDecision"] == "allow"
    assert gate.asked[-1][1]["tool_input"] == ARGS
    ask_copilot(gate, "postToolUse", toolResult={"resultType": "success", "textResultForLlm": "x"})
    assert gate.asked[-1][1]["tool_use_id"] == gate.asked[0][1]["tool_use_id"] and not any(cache.rglob("*.call_*"))


@pytest.mark.usefixtures("cache")
def test_a_tool_of_an_mcp_server_is_judged_with_its_server(gate: Gate) -> None:
    ask_gemini(gate, "BeforeTool", tool_name="mcp_files_rm", mcp_context={"server_name": "files", "tool_name": "rm"})
    assert gate.asked[-1][1]["tool_name"] == "mcp__files__rm"


def test_results_find_their_calls_the_newest_of_equal_ones_first(gate: Gate, cache: Path) -> None:
    for _ in range(2):
        ask_gemini(gate, "BeforeTool")
    ask_gemini(gate, "BeforeTool", tool_input={"command": "pwd"})
    for _ in range(3):
        ask_gemini(gate, "AfterTool", tool_response={"llmContent": "x"})
    ids = [hook["tool_use_id"] for _, hook in gate.asked]
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
