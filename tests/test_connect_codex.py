"""Connecting Codex: what is written to its hooks.json, and that undo removes exactly that."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from toolcards import connect
from toolcards.connect.hooks_file import HOLD, TIMEOUT

CODEX = connect.recipe("codex")
OTHERS: dict[str, Any] = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "./mine.sh"}]}]}}


@pytest.fixture
def wish(tmp_path: Path) -> connect.Wish:
    (tmp_path / ".codex").mkdir()
    return connect.Wish(url="http://127.0.0.1:8123", key="tck_the_key_of_a_test", home=tmp_path)


def hooks_json(wish: connect.Wish) -> Path:
    return wish.home / ".codex" / "hooks.json"


def test_the_gating_hooks_block_where_they_cannot_start_and_hold_no_key(wish: connect.Wish) -> None:
    hooks_json(wish).write_text(json.dumps(OTHERS))
    connect.write(CODEX.plan(wish))
    hooks = json.loads(hooks_json(wish).read_text())["hooks"]
    assert hooks["PreToolUse"][0] == OTHERS["hooks"]["PreToolUse"][0]
    for event in ("PreToolUse", "PermissionRequest"):
        (hook,) = hooks[event][-1]["hooks"]
        assert f"hook codex --url {wish.url} --key-file " in hook["command"] and hook["command"].endswith("exit 2; }")
        assert (hook["timeout"], f"--limit {HOLD} " in hook["command"]) == (TIMEOUT, True)
    assert hooks["SessionEnd"][0]["hooks"][0]["timeout"] <= 3  # Codex warns about more at each start
    assert wish.key not in hooks_json(wish).read_text()
    assert CODEX.key_in(wish) == wish.key
    assert stat.S_IMODE((wish.home / ".codex" / "toolcards.key").stat().st_mode) == 0o600
    assert not any(change.needed for change in CODEX.plan(connect.Wish(wish.url, "", None, wish.home)))


@pytest.mark.parametrize("before", [None, OTHERS])
def test_undo_restores_what_was_there(wish: connect.Wish, before: dict[str, Any] | None) -> None:
    if before is not None:
        hooks_json(wish).write_text(json.dumps(before, indent=2))
    connect.write(CODEX.plan(wish))
    connect.write(CODEX.undo(wish))
    assert not (wish.home / ".codex" / "toolcards.key").exists()
    left = hooks_json(wish).read_text() if hooks_json(wish).exists() else None
    assert left == (None if before is None else json.dumps(before, indent=2))


def test_a_project_has_hooks_of_its_own(wish: connect.Wish, tmp_path: Path) -> None:
    changes = CODEX.plan(connect.Wish(wish.url, wish.key, tmp_path / "project", tmp_path))
    assert {change.path.parent for change in changes} == {tmp_path / "project" / ".codex"}


def test_a_diff_shows_no_key(wish: connect.Wish) -> None:
    assert all(wish.key not in change.diff() for change in CODEX.plan(wish))
