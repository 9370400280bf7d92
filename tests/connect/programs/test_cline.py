"""Cline: one script per event, and the script that a tool waits for prints a decision whatever happens."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolcards import connect, hook_relay
from toolcards.connect.programs import cline
from toolcards.connect.programs.cline import RECIPE


def read_hooks(target: connect.Target) -> dict[str, Any]:
    return {path.name: path.read_text() for path in cline.hooks_folder(target).iterdir()}


def test_clines_gating_script_answers_before_clines_own_limit(target: connect.Target) -> None:
    connect.write_changes(RECIPE.plan(target))
    scripts = read_hooks(target)
    assert set(scripts) == {cline.GATE, *cline.REPORTS} and cline.HOLD + hook_relay.MARGIN < 120
    assert all(f"--limit {cline.HOLD} " in script for script in scripts.values())


@pytest.mark.parametrize("command", ["exit 3", "true", "no-such-program-at-all", "printf '' | false"])
@pytest.mark.parametrize(("event", "expected"), [("PreToolUse", cline.FALLBACK), ("PostToolUse", {})])
def test_clines_scripts_print_a_decision_whatever_happens_to_their_command(
    target: connect.Target, command: str, event: str, expected: Any
) -> None:
    connect.write_changes(RECIPE.plan(target))
    text = read_hooks(target)[event]
    broken = re.sub(r"answer=\$\(.*\)( && \[)", lambda match: f"answer=$({command}){match[1]}", text)
    assert broken != text
    process = subprocess.run(["sh", "-c", broken], input="{}", capture_output=True, text=True, timeout=60)
    assert (process.returncode, json.loads(process.stdout)) == (0, expected)


def test_clines_other_hooks_stay(target: connect.Target) -> None:
    path = target.home / ".cline" / "hooks" / "PreToolUse.sh"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    connect.write_changes(RECIPE.plan(target))
    connect.write_changes(RECIPE.undo(target))
    assert [each.name for each in path.parent.iterdir()] == ["PreToolUse.sh"]


@pytest.mark.parametrize("event", [cline.GATE, "PostToolUse"])
def test_clines_scripts_print_what_their_command_answers(
    target: connect.Target, event: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "toolcards"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nread line; printf \'{"input": %s, "words": "%s"}\' "$line" "$1 $2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    connect.write_changes(RECIPE.plan(target))
    script = read_hooks(target)[event]
    process = subprocess.run(["sh", "-c", script], input='"it\'s"\n', capture_output=True, text=True, timeout=60)
    assert json.loads(process.stdout) == {"input": "it's", "words": "hook cline"}
