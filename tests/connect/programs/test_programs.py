"""Connecting programs with command hooks: what is written to their hooks, and that undo removes exactly that."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolcards import connect, hook_relay
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT
from toolcards.connect.programs import cline

GEMINI, COPILOT = connect.get_recipe("gemini-cli"), connect.get_recipe("copilot")
CURSOR = connect.get_recipe("cursor")
CLINE, GOOSE = connect.get_recipe("cline"), connect.get_recipe("goose")
BOTH = pytest.mark.parametrize("recipe", [GEMINI, COPILOT, CURSOR, CLINE, GOOSE], ids=lambda recipe: recipe.name)
FILES = {
    "gemini-cli": ".gemini/settings.json",
    "copilot": ".copilot/hooks/toolcards.json",
    "cursor": ".cursor/hooks.json",
    "goose": ".agents/plugins/toolcards/hooks/hooks.json",
}
OTHERS: dict[str, Any] = {
    "ui": {"theme": "x"}, "hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "./mine.sh"}]}]}
}  # fmt: skip


@pytest.fixture
def target(tmp_path: Path) -> connect.Target:
    return connect.Target(url="http://127.0.0.1:8123", key="tck_the_key_of_a_test", home=tmp_path)


def read_hooks(target: connect.Target, recipe: connect.Recipe) -> dict[str, Any]:
    if recipe is CLINE:
        return {path.name: path.read_text() for path in (target.home / ".cline" / "hooks").iterdir()}
    hooks: dict[str, Any] = json.loads((target.home / FILES[recipe.name]).read_text())["hooks"]
    return hooks


@BOTH
def test_the_key_is_in_a_file_of_its_own_and_undo_leaves_nothing(
    target: connect.Target, recipe: connect.Recipe
) -> None:
    connect.write_changes(recipe.plan(target))
    (key_file,) = target.home.glob(".config/toolcards/keys/*.key")
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600 and recipe.read_key(target) == target.key
    assert target.key not in json.dumps(read_hooks(target, recipe))
    assert all(target.key not in change.diff() for change in recipe.plan(target))
    assert not any(change.is_needed for change in recipe.plan(connect.Target(target.url, "", None, target.home)))
    connect.write_changes(recipe.undo(target))
    assert not [path for path in target.home.rglob("*") if path.is_file()]


def test_the_gating_hooks_block_where_they_cannot_start_and_answer_before_their_limit(target: connect.Target) -> None:
    for recipe in (GEMINI, COPILOT):
        connect.write_changes(recipe.plan(target))
    (gemini,) = read_hooks(target, GEMINI)["BeforeTool"][0]["hooks"]
    (copilot,) = read_hooks(target, COPILOT)["preToolUse"]
    for line, limit in ((gemini["command"], gemini["timeout"] / 1000), (copilot["bash"], copilot["timeoutSec"])):
        assert line.endswith("exit 2; }") and f"--limit {HOLD} " in line and limit == TIMEOUT > HOLD


def test_other_settings_and_hooks_of_gemini_stay(target: connect.Target) -> None:
    path = target.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps(OTHERS, indent=4))
    connect.write_changes(GEMINI.plan(target))
    assert read_hooks(target, GEMINI)["BeforeTool"][0] == OTHERS["hooks"]["BeforeTool"][0]
    connect.write_changes(GEMINI.undo(target))
    assert path.read_text() == json.dumps(OTHERS, indent=4)


def test_cursors_gating_hooks_fail_closed_and_other_hooks_stay(target: connect.Target) -> None:
    path = target.home / ".cursor" / "hooks.json"
    path.parent.mkdir()
    mine = {"version": 1, "hooks": {"stop": [{"command": "./mine.sh"}], "beforeReadFile": []}}
    path.write_text(json.dumps(mine, indent=2))
    connect.write_changes(CURSOR.plan(target))
    hooks = read_hooks(target, CURSOR)
    for event in ("beforeShellExecution", "beforeMCPExecution"):
        (hook,) = hooks[event]
        assert hook["failClosed"] is True and hook["timeout"] == TIMEOUT and hook["command"].endswith("exit 2; }")
    assert hooks["stop"][0] == {"command": "./mine.sh"} and len(hooks["stop"]) == 2
    connect.write_changes(CURSOR.undo(target))
    assert path.read_text() == json.dumps(mine, indent=2)


@pytest.mark.parametrize("config", [{"enabled": False}, {"disabled": ["toolcards"]}])
def test_connect_warns_where_gemini_has_its_hooks_switched_off(target: connect.Target, config: Any) -> None:
    assert GEMINI.find_warning is not None and GEMINI.find_warning(target) == ""
    path = target.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"hooksConfig": config}))
    assert "nothing is held" in GEMINI.find_warning(target)


@pytest.mark.parametrize(
    ("recipe", "name"),
    [(COPILOT, FILES["copilot"]), (GOOSE, FILES["goose"]), (CLINE, ".cline/hooks/SessionShutdown")],
    ids=lambda value: getattr(value, "name", ""),
)
def test_some_are_connected_for_the_account_and_a_foreign_file_is_not_touched(
    target: connect.Target, tmp_path: Path, recipe: connect.Recipe, name: str
) -> None:
    with pytest.raises(connect.Unreadable, match="leave out --project"):
        recipe.plan(connect.Target(target.url, target.key, tmp_path, tmp_path))
    path = target.home / name
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    for plan in (recipe.plan, recipe.undo):
        with pytest.raises(connect.Unreadable, match="not written by Toolcards"):
            plan(target)


@BOTH
def test_the_probe_without_a_server_reads_what_the_hook_says(target: connect.Target, recipe: connect.Recipe) -> None:
    assert recipe.probe_offline is not None and recipe.probe_offline(target) == ""
    connect.write_changes(recipe.plan(target))
    assert "so nothing was run" in recipe.probe_offline(target)


def test_clines_gating_script_answers_before_clines_own_limit(target: connect.Target) -> None:
    connect.write_changes(CLINE.plan(target))
    scripts = read_hooks(target, CLINE)
    assert set(scripts) == {cline.GATE, *cline.REPORTS} and cline.HOLD + hook_relay.MARGIN < 120
    assert all(f"--limit {cline.HOLD} " in script for script in scripts.values())


@pytest.mark.parametrize("command", ["exit 3", "true", "no-such-program-at-all", "printf '' | false"])
@pytest.mark.parametrize(("event", "expected"), [("PreToolUse", cline.FALLBACK), ("PostToolUse", {})])
def test_clines_scripts_print_a_decision_whatever_happens_to_their_command(
    target: connect.Target, command: str, event: str, expected: Any
) -> None:
    connect.write_changes(CLINE.plan(target))
    text = read_hooks(target, CLINE)[event]
    broken = re.sub(r"answer=\$\(.*\)( && \[)", lambda match: f"answer=$({command}){match[1]}", text)
    assert broken != text
    process = subprocess.run(["sh", "-c", broken], input="{}", capture_output=True, text=True, timeout=60)
    assert (process.returncode, json.loads(process.stdout)) == (0, expected)


def test_clines_other_hooks_stay(target: connect.Target) -> None:
    path = target.home / ".cline" / "hooks" / "PreToolUse.sh"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    connect.write_changes(CLINE.plan(target))
    connect.write_changes(CLINE.undo(target))
    assert [each.name for each in path.parent.iterdir()] == ["PreToolUse.sh"]


def test_gooses_gating_hook_blocks_where_it_fails_and_where_it_takes_too_long(target: connect.Target) -> None:
    connect.write_changes(GOOSE.plan(target))
    hooks = read_hooks(target, GOOSE)
    ((gate,),) = (entry["hooks"] for entry in hooks["PreToolUse"])
    assert gate["command"].endswith("exit 2; }") and gate["on_failure"] == "block" and gate["timeout"] == TIMEOUT > HOLD
    assert all("matcher" not in entry for entries in hooks.values() for entry in entries)


@pytest.mark.parametrize(("value", "warns"), [("false", True), ("true", False)])
def test_connect_warns_where_goose_has_the_plug_in_switched_off(
    target: connect.Target, value: str, warns: bool
) -> None:
    assert GOOSE.find_warning is not None and GOOSE.find_warning(target) == ""
    path = target.home / ".config" / "goose" / "config.yaml"
    path.parent.mkdir(parents=True)
    plugin = target.home / ".agents" / "plugins" / "toolcards"
    path.write_text(f"plugins:\n  {plugin}-of-others:\n    enabled: false\n  {plugin}:\n    enabled: {value}\n")
    assert ("nothing is held" in GOOSE.find_warning(target)) is warns
