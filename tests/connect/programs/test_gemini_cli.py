"""Gemini CLI: hooks in its settings, where everything else stays as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolcards import connect
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT
from toolcards.connect.programs import gemini_cli
from toolcards.connect.programs.gemini_cli import GATE, RECIPE, REPORTS

OTHERS: dict[str, Any] = {
    "ui": {"theme": "x"}, "hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "./mine.sh"}]}]}
}  # fmt: skip


def read_hooks(target: connect.Target) -> dict[str, Any]:
    hooks: dict[str, Any] = json.loads(gemini_cli.settings_path(target).read_text())["hooks"]
    return hooks


def test_the_gating_hook_blocks_where_it_cannot_start_and_answers_before_its_limit(target: connect.Target) -> None:
    connect.write_changes(RECIPE.plan(target))
    (hook,) = read_hooks(target)[GATE][0]["hooks"]
    assert hook["command"].endswith("exit 2; }") and f"--limit {HOLD} " in hook["command"]
    assert hook["timeout"] == 1000 * TIMEOUT > 1000 * HOLD  # milliseconds


def test_hooks_that_only_report_hold_nothing_up(target: connect.Target) -> None:
    connect.write_changes(RECIPE.plan(target))
    hooks = read_hooks(target)
    assert hooks.keys() == {GATE, *REPORTS}
    for event in REPORTS:
        ((hook,),) = (entry["hooks"] for entry in hooks[event])
        assert hook["timeout"] <= 5_000 and "exit 2" not in hook["command"]
    assert [event for event in hooks if "matcher" in hooks[event][0]] == [GATE, "AfterTool"]


def test_other_settings_and_hooks_of_gemini_stay(target: connect.Target) -> None:
    path = target.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps(OTHERS, indent=4))
    connect.write_changes(RECIPE.plan(target))
    assert read_hooks(target)["BeforeTool"][0] == OTHERS["hooks"]["BeforeTool"][0]
    connect.write_changes(RECIPE.undo(target))
    assert path.read_text() == json.dumps(OTHERS, indent=4)


def test_settings_that_have_our_hooks_stay_as_typed_and_an_empty_file_goes(target: connect.Target) -> None:
    connect.write_changes(RECIPE.plan(target))
    path = gemini_cli.settings_path(target)
    path.write_text(json.dumps(json.loads(path.read_text())))  # on one line
    assert not any(change.is_needed for change in RECIPE.plan(target))
    connect.write_changes(RECIPE.undo(target))
    assert not path.exists()


def test_a_project_has_settings_and_a_key_of_its_own(target: connect.Target, tmp_path: Path) -> None:
    project = replace(target, project=tmp_path / "project")
    connect.write_changes(RECIPE.plan(project))
    assert (tmp_path / "project" / ".gemini" / "settings.json").exists() and RECIPE.read_key(target) == ""
    assert RECIPE.read_key(project) == target.key and not gemini_cli.settings_path(target).exists()


@pytest.mark.parametrize("hooks", [None, [], {GATE: {}}])
def test_settings_in_which_hooks_have_no_place_are_left(target: connect.Target, hooks: Any) -> None:
    path = gemini_cli.settings_path(target)
    path.parent.mkdir()
    path.write_text(json.dumps({"hooks": hooks}))
    with pytest.raises(connect.Unreadable):
        RECIPE.plan(target)
    assert RECIPE.probe_offline is not None and RECIPE.probe_offline(target) == ""


def test_a_probe_is_not_stopped_by_what_others_wrote_among_the_hooks(target: connect.Target) -> None:
    path = gemini_cli.settings_path(target)
    path.parent.mkdir()
    path.write_text(json.dumps({"hooks": {GATE: ["mine", {"hooks": [{"url": "http://[no-address"}]}]}}))
    assert RECIPE.probe_offline is not None and RECIPE.probe_offline(target) == ""
    connect.write_changes(RECIPE.plan(target))
    assert len(read_hooks(target)[GATE]) == 3


@pytest.mark.parametrize("config", [{"enabled": False}, {"disabled": ["toolcards"]}])
def test_connect_warns_where_gemini_has_its_hooks_switched_off(target: connect.Target, config: Any) -> None:
    assert RECIPE.find_warning is not None and RECIPE.find_warning(target) == ""
    path = target.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"hooksConfig": config}))
    assert "nothing is held" in RECIPE.find_warning(target)


@pytest.mark.parametrize("config", [None, [], {"enabled": True}, {"disabled": "toolcards"}, {"disabled": ["another"]}])
def test_other_settings_of_hooks_are_no_reason_to_warn(target: connect.Target, config: Any) -> None:
    path = gemini_cli.settings_path(target)
    path.parent.mkdir()
    path.write_text(json.dumps({"hooksConfig": config}))
    assert RECIPE.find_warning is not None and RECIPE.find_warning(target) == ""
