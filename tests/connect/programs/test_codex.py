"""Connecting Codex: what is written to its hooks.json, and that undo removes exactly that."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from toolcards import connect
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT

CODEX = connect.get_recipe("codex")
OTHERS: dict[str, Any] = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "./mine.sh"}]}]}}


@pytest.fixture
def target(tmp_path: Path) -> connect.Target:
    (tmp_path / ".codex").mkdir()
    return connect.Target(url="http://127.0.0.1:8123", key="tck_the_key_of_a_test", home=tmp_path)


def hooks_json(target: connect.Target) -> Path:
    return target.home / ".codex" / "hooks.json"


def key_file(target: connect.Target) -> Path:
    return target.home / ".config" / "toolcards" / "keys" / "codex.key"


def test_the_gating_hooks_block_where_they_cannot_start_and_hold_no_key(target: connect.Target) -> None:
    hooks_json(target).write_text(json.dumps(OTHERS))
    connect.write_changes(CODEX.plan(target))
    hooks = json.loads(hooks_json(target).read_text())["hooks"]
    assert hooks["PreToolUse"][0] == OTHERS["hooks"]["PreToolUse"][0]
    for event in ("PreToolUse", "PermissionRequest"):
        (hook,) = hooks[event][-1]["hooks"]
        assert f"hook codex --url {target.url} --key-file " in hook["command"] and hook["command"].endswith("exit 2; }")
        assert (hook["timeout"], f"--limit {HOLD} " in hook["command"]) == (TIMEOUT, True)
    assert hooks["SessionEnd"][0]["hooks"][0]["timeout"] <= 3  # Codex warns about more at each start
    assert target.key not in hooks_json(target).read_text()
    assert CODEX.read_key(target) == target.key
    assert stat.S_IMODE(key_file(target).stat().st_mode) == 0o600
    assert not any(change.is_needed for change in CODEX.plan(connect.Target(target.url, "", None, target.home)))


@pytest.mark.parametrize("before", [None, OTHERS])
def test_undo_restores_what_was_there(target: connect.Target, before: dict[str, Any] | None) -> None:
    if before is not None:
        hooks_json(target).write_text(json.dumps(before, indent=2))
    connect.write_changes(CODEX.plan(target))
    connect.write_changes(CODEX.undo(target))
    assert not key_file(target).exists() and not key_file(target).parents[1].exists()
    shown_text = hooks_json(target).read_text() if hooks_json(target).exists() else None
    assert shown_text == (None if before is None else json.dumps(before, indent=2))


def test_a_project_has_hooks_of_its_own(target: connect.Target, tmp_path: Path) -> None:
    changes = CODEX.plan(connect.Target(target.url, target.key, tmp_path / "project", tmp_path))
    assert [change.path for change in changes if not change.secret] == [tmp_path / "project" / ".codex" / "hooks.json"]
    (key_change,) = [change for change in changes if change.secret]
    assert not key_change.path.is_relative_to(tmp_path / "project")


def test_a_key_that_an_earlier_version_wrote_moves_out_of_the_programs_folder(target: connect.Target) -> None:
    old = target.home / ".codex" / "toolcards.key"
    old.write_text("tck_from_an_earlier_version\n")
    connect.write_changes(CODEX.plan(connect.Target(target.url, "", None, target.home)))
    assert not old.exists() and key_file(target).read_text() == "tck_from_an_earlier_version\n"


def test_a_diff_shows_no_key(target: connect.Target) -> None:
    assert all(target.key not in change.diff() for change in CODEX.plan(target))
