"""Cursor: hooks in its hooks.json, where everything else stays as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcards import connect
from toolcards.connect.edits.hooks_file import TIMEOUT
from toolcards.connect.programs import cursor
from toolcards.connect.programs.cursor import GATES, RECIPE, REPORTS


def read_hooks(target: connect.Target) -> dict[str, Any]:
    hooks: dict[str, Any] = json.loads(cursor.hooks_path(target).read_text())["hooks"]
    return hooks


def write_settings(target: connect.Target, settings: Any) -> None:
    cursor.hooks_path(target).parent.mkdir()
    cursor.hooks_path(target).write_text(json.dumps(settings, indent=2))


def test_cursors_gating_hooks_fail_closed_and_other_hooks_stay(target: connect.Target) -> None:
    path = target.home / ".cursor" / "hooks.json"
    path.parent.mkdir()
    mine = {"version": 1, "hooks": {"stop": [{"command": "./mine.sh"}], "beforeReadFile": []}}
    path.write_text(json.dumps(mine, indent=2))
    connect.write_changes(RECIPE.plan(target))
    hooks = read_hooks(target)
    for event in ("beforeShellExecution", "beforeMCPExecution"):
        (hook,) = hooks[event]
        assert hook["failClosed"] is True and hook["timeout"] == TIMEOUT and hook["command"].endswith("exit 2; }")
    assert hooks["stop"][0] == {"command": "./mine.sh"} and len(hooks["stop"]) == 2
    connect.write_changes(RECIPE.undo(target))
    assert path.read_text() == json.dumps(mine, indent=2)


def test_hooks_that_only_report_hold_nothing_up(target: connect.Target) -> None:
    connect.write_changes(RECIPE.plan(target))
    hooks = read_hooks(target)
    assert hooks.keys() == {*GATES, *REPORTS}
    for event in REPORTS:
        (hook,) = hooks[event]
        assert hook["timeout"] <= 5 and "failClosed" not in hook and "exit 2" not in hook["command"]


@pytest.mark.parametrize("settings", [{}, {"version": 1}, {"version": 1, "hooks": {}}, {"version": 2, "x": 1}])
def test_a_file_that_held_only_our_hooks_goes_and_another_one_is_as_before(
    target: connect.Target, settings: dict[str, Any]
) -> None:
    write_settings(target, settings)
    connect.write_changes(RECIPE.plan(target))
    new_settings = json.loads(cursor.hooks_path(target).read_text())
    assert new_settings["version"] == settings.get("version", 1)  # another format than ours is not renamed
    connect.write_changes(RECIPE.undo(target))
    path = cursor.hooks_path(target)
    assert (json.loads(path.read_text()) == settings) if "x" in settings else not path.exists()


@pytest.mark.parametrize("hooks", [None, [], "x", {"stop": {}}, {GATES[0]: None}])
def test_a_file_in_which_hooks_have_no_place_is_left(target: connect.Target, hooks: Any) -> None:
    write_settings(target, {"hooks": hooks})
    with pytest.raises(connect.Unreadable, match="It was not changed"):
        RECIPE.plan(target)
    assert not any(change.is_needed for change in RECIPE.undo(target))


def test_entries_of_any_shape_stay(target: connect.Target) -> None:
    foreign = {"stop": ["text", 1, {"command": 5}, {}], "another": "x"}
    write_settings(target, {"hooks": foreign})
    connect.write_changes(RECIPE.plan(target))
    connect.write_changes(RECIPE.plan(target))
    assert len(read_hooks(target)["stop"]) == 5
    connect.write_changes(RECIPE.undo(target))
    assert read_hooks(target) == foreign
