"""Connecting Gemini CLI, Copilot CLI and Cursor: what is written to their hooks, and that undo removes exactly that."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from toolcards import connect
from toolcards.connect.hooks_file import HOLD, TIMEOUT

GEMINI, COPILOT = connect.get_recipe("gemini-cli"), connect.get_recipe("copilot")
CURSOR = connect.get_recipe("cursor")
BOTH = pytest.mark.parametrize("recipe", [GEMINI, COPILOT, CURSOR], ids=lambda recipe: recipe.name)
FILES = {
    "gemini-cli": ".gemini/settings.json",
    "copilot": ".copilot/hooks/toolcards.json",
    "cursor": ".cursor/hooks.json",
}
OTHERS: dict[str, Any] = {
    "ui": {"theme": "x"}, "hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "./mine.sh"}]}]}
}  # fmt: skip


@pytest.fixture
def target(tmp_path: Path) -> connect.Target:
    return connect.Target(url="http://127.0.0.1:8123", key="tck_the_key_of_a_test", home=tmp_path)


def read_hooks(target: connect.Target, recipe: connect.Recipe) -> dict[str, Any]:
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


def test_copilot_is_connected_for_the_account_and_a_foreign_file_is_not_touched(
    target: connect.Target, tmp_path: Path
) -> None:
    with pytest.raises(connect.Unreadable, match="leave out --project"):
        COPILOT.plan(connect.Target(target.url, target.key, tmp_path, tmp_path))
    path = target.home / ".copilot" / "hooks" / "toolcards.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    for plan in (COPILOT.plan, COPILOT.undo):
        with pytest.raises(connect.Unreadable, match="not written by Toolcards"):
            plan(target)


@BOTH
def test_the_probe_without_a_server_reads_what_the_hook_says(target: connect.Target, recipe: connect.Recipe) -> None:
    assert recipe.probe_offline is not None and recipe.probe_offline(target) == ""
    connect.write_changes(recipe.plan(target))
    assert "so nothing was run" in recipe.probe_offline(target)
