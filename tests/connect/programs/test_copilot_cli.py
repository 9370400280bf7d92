"""GitHub Copilot CLI: a file of hooks that only we write."""

from __future__ import annotations

import json
from typing import Any

from toolcards import connect
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT
from toolcards.connect.programs import copilot_cli
from toolcards.connect.programs.copilot_cli import GATE, RECIPE, REPORTS


def read_hooks(target: connect.Target) -> dict[str, Any]:
    document = json.loads(copilot_cli.hooks_path(target).read_text())
    assert document["version"] == 1
    hooks: dict[str, Any] = document["hooks"]
    return hooks


def test_the_gating_hook_blocks_where_it_cannot_start_and_answers_before_its_limit(target: connect.Target) -> None:
    connect.write_changes(RECIPE.plan(target))
    (hook,) = read_hooks(target)[GATE]
    assert hook["bash"].endswith("exit 2; }") and f" hook copilot {GATE} " in hook["bash"]
    assert f"--limit {HOLD} " in hook["bash"] and hook["timeoutSec"] == TIMEOUT > HOLD


def test_hooks_that_only_report_hold_nothing_up(target: connect.Target) -> None:
    connect.write_changes(RECIPE.plan(target))
    hooks = read_hooks(target)
    assert hooks.keys() == {GATE, *REPORTS}
    for event in REPORTS:
        (hook,) = hooks[event]
        assert hook["timeoutSec"] <= 5 and "exit 2" not in hook["bash"] and f" hook copilot {event} " in hook["bash"]


def test_what_copilot_keeps_in_its_folder_stays(target: connect.Target) -> None:
    other = target.home / ".copilot" / "config.json"
    other.parent.mkdir()
    other.write_text("{}")
    connect.write_changes(RECIPE.plan(target))
    connect.write_changes(RECIPE.undo(target))
    assert [path.name for path in other.parent.iterdir()] == ["config.json"]
