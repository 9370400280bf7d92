"""Goose: a plugin that has only a file of hooks, and a warning where it is switched off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcards import connect
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT
from toolcards.connect.programs import goose
from toolcards.connect.programs.goose import GATE, RECIPE, REPORTS


def read_hooks(target: connect.Target) -> dict[str, Any]:
    hooks: dict[str, Any] = json.loads(goose.hooks_path(target).read_text())["hooks"]
    return hooks


def test_gooses_gating_hook_blocks_where_it_fails_and_where_it_takes_too_long(target: connect.Target) -> None:
    connect.write_changes(RECIPE.plan(target))
    hooks = read_hooks(target)
    ((gate,),) = (entry["hooks"] for entry in hooks["PreToolUse"])
    assert gate["command"].endswith("exit 2; }") and gate["on_failure"] == "block" and gate["timeout"] == TIMEOUT > HOLD
    assert all("matcher" not in entry for entries in hooks.values() for entry in entries)


def test_hooks_that_only_report_hold_nothing_up(target: connect.Target) -> None:
    connect.write_changes(RECIPE.plan(target))
    hooks = read_hooks(target)
    assert hooks.keys() == {GATE, *REPORTS}
    for event in REPORTS:
        ((hook,),) = (entry["hooks"] for entry in hooks[event])
        assert hook["timeout"] <= 5 and "on_failure" not in hook and "exit 2" not in hook["command"]


@pytest.mark.parametrize(("value", "warns"), [("false", True), ("true", False)])
def test_connect_warns_where_goose_has_the_plug_in_switched_off(
    target: connect.Target, value: str, warns: bool
) -> None:
    assert RECIPE.find_warning is not None and RECIPE.find_warning(target) == ""
    path = target.home / ".config" / "goose" / "config.yaml"
    path.parent.mkdir(parents=True)
    plugin = target.home / ".agents" / "plugins" / "toolcards"
    path.write_text(f"plugins:\n  {plugin}-of-others:\n    enabled: false\n  {plugin}:\n    enabled: {value}\n")
    assert ("nothing is held" in RECIPE.find_warning(target)) is warns


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_the_name_of_the_plugin_may_have_quotes(target: connect.Target, quote: str) -> None:
    path = target.home / ".config" / "goose" / "config.yaml"
    path.parent.mkdir(parents=True)
    plugin = target.home / ".agents" / "plugins" / "toolcards"
    path.write_text(f"plugins:\n  {quote}{plugin}{quote}:\n    enabled: false\n")
    assert RECIPE.find_warning is not None and "Switch it on" in RECIPE.find_warning(target)


def test_other_plugins_stay(target: connect.Target) -> None:
    other = target.home / ".agents" / "plugins" / "mine" / "hooks.json"
    other.parent.mkdir(parents=True)
    other.touch()
    connect.write_changes(RECIPE.plan(target))
    connect.write_changes(RECIPE.undo(target))
    assert [path.name for path in other.parents[1].iterdir()] == ["mine"]
