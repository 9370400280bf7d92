"""`toolcards hook`: what it lets run is an answer to exactly these bytes; everything else is a deny."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_gate import Gate, plain
from tests.support.hook_inputs import hook, lets_run, options, send_hook
from tests.support.server import PATIENCE, until
from tests.support.silent_server import Hole
from toolcards import hook_relay
from toolcards.hook_relay import relay

ROOT = Path(__file__).parents[2]


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
    output = send_hook(gate, "PreToolUse", program, tool_name=tool)
    assert output == ({"hookSpecificOutput": {"hookEventName": "PreToolUse", **expected}} if expected else {})


@pytest.mark.parametrize("event", ["PostToolUse", "UserPromptSubmit", "Stop", "SessionStart"])
def test_what_only_tells_decides_nothing_whatever_the_server_answers(gate: Gate, event: str) -> None:
    gate.tamper = lambda stage, honest: plain({"decision": "block", "hookSpecificOutput": {"additionalContext": "x"}})
    assert send_hook(gate, event) == {} and gate.stages() == ["hook"]


def test_without_a_server_nothing_runs_and_what_only_tells_says_so() -> None:
    assert not lets_run(send_hook("http://127.0.0.1:9", "PreToolUse"))
    assert not lets_run(send_hook("http://127.0.0.1:9", "PermissionRequest"))
    assert "Stop" in send_hook("http://127.0.0.1:9", "Stop")["systemMessage"]


def test_a_server_that_hangs_is_given_up_after_a_second_by_what_only_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hook_relay.GIVE_UP == 1.0
    monkeypatch.setattr(hook_relay, "GIVE_UP", 0.2)
    with Hole() as hole:
        assert "did not receive PostToolUse" in send_hook(hole.url, "PostToolUse")["systemMessage"]
        until(lambda: hole.swallowed)


def test_the_model_does_not_read_a_key_that_cannot_be_sent(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("tck_secret\nsecond line\n")
    data = json.dumps(hook("PreToolUse"))
    completed = run(data, "claude-code", "--url", gate.url, "--key-file", str(tmp_path / "key"))
    assert "tck_secret" not in completed.stdout + completed.stderr and not lets_run(json.loads(completed.stdout))


def test_a_call_that_cannot_be_stored_is_denied_and_says_why(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "full").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "full"))
    value = {"sessionId": "c", "toolName": "bash", "toolArgs": {"command": "ls"}}
    words = options(gate, "copilot")
    words.event = "preToolUse"
    output = relay(words, json.dumps(value).encode(), value)
    reason = "Toolcards could not store that this call may run (Not a directory), so nothing was run."
    assert output == {"permissionDecision": "deny", "permissionDecisionReason": reason}


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
