"""Our hooks in settings of others: added, found and removed exactly, whatever else is written there."""

from __future__ import annotations

import copy
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards import connect
from toolcards.connect.base import TAG
from toolcards.connect.edits import hooks_file

PATH = Path("settings.json")
OURS = {"hooks": [{"type": "command", "command": f"toolcards hook x --by {TAG}"}]}
OURS_BY_ADDRESS = {"matcher": "*", "hooks": [{"type": "http", "url": f"http://127.0.0.1:8000/api?by={TAG}&bound=1"}]}
FOREIGN_HOOKS: list[Any] = [
    {"command": "./mine.sh"}, {"url": "https://x.example/?a=1"}, {"url": "http://[no-address"}, {"url": None}, {},
    "text", 1, {"url": f"https://x.example/{TAG}"}, {"url": f"https://x.example/#?by={TAG}"},
    {"command": f"echo {TAG}"},
]  # fmt: skip
ENTRIES = st.one_of(
    st.fixed_dictionaries(
        {"hooks": st.lists(st.sampled_from(FOREIGN_HOOKS), max_size=3)}, optional={"matcher": st.text()}
    ),
    st.sampled_from([{}, {"hooks": None}, {"hooks": {"a": 1}}, None, "text", []]),
)  # fmt: skip
EVENTS = st.sampled_from(["PreToolUse", "Stop", "other"])
SETTINGS = st.fixed_dictionaries(
    {}, optional={"hooks": st.dictionaries(EVENTS, st.lists(ENTRIES, max_size=3)), "env": st.just({"A": "1"})}
)


@draw(200)
@given(SETTINGS)
def test_hooks_that_are_added_and_removed_leave_the_settings_as_they_were(settings: dict[str, Any]) -> None:
    before = copy.deepcopy(settings)
    after = hooks_file.add_hooks(settings, {"PreToolUse": OURS, "Stop": OURS_BY_ADDRESS}, PATH)
    assert settings == before
    assert hooks_file.find_hooks(after, "PreToolUse") == OURS["hooks"]
    assert hooks_file.find_hooks(after, "Stop") == OURS_BY_ADDRESS["hooks"]
    assert hooks_file.find_hooks(before, "PreToolUse") == hooks_file.find_hooks(after, "other") == []
    again = hooks_file.add_hooks(after, {"PreToolUse": OURS, "Stop": OURS_BY_ADDRESS}, PATH)
    assert hooks_file.is_same(again, after) and not hooks_file.is_same(after, before)
    removed = hooks_file.remove_hooks(after)
    # Only an empty list that we filled is not there any more.
    rest = {event: entries for event, entries in before.get("hooks", {}).items() if entries or event == "other"}
    assert removed.get("hooks", {}) == rest and removed.get("env") == before.get("env")


def test_a_foreign_hook_next_to_ours_stays() -> None:
    mixed = {"matcher": "Bash", "hooks": [*OURS["hooks"], {"command": "./mine.sh"}]}
    after = hooks_file.remove_hooks({"hooks": {"PreToolUse": [mixed]}})
    assert after == {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": "./mine.sh"}]}]}}


def test_lists_that_were_empty_before_stay_and_those_that_we_empty_go() -> None:
    assert hooks_file.remove_hooks({"hooks": {"Stop": [], "PreToolUse": [OURS]}}) == {"hooks": {"Stop": []}}
    assert hooks_file.remove_hooks({"hooks": {"PreToolUse": [OURS]}}) == {}
    assert hooks_file.remove_hooks({"hooks": {}}) == {"hooks": {}}


@loop_over(
    "settings",
    [
        {}, {"hooks": None}, {"hooks": []}, {"hooks": "x"}, {"hooks": {"PreToolUse": None}},
        {"hooks": {"PreToolUse": {}}},
        {"hooks": {"PreToolUse": ["x", None, [], {"hooks": "x"}, {"hooks": [None]}]}},
    ],
)  # fmt: skip
def test_settings_of_any_shape_have_none_of_our_hooks(settings: Any) -> None:
    assert hooks_file.find_hooks(settings, "PreToolUse") == [] and hooks_file.remove_hooks(settings) == settings


@loop_over("hooks", [None, [], "x", {"PreToolUse": {}}, {"PreToolUse": None}])
def test_where_hooks_have_no_place_the_file_is_named_and_left(hooks: Any) -> None:
    settings = {"hooks": hooks}
    with pytest.raises(connect.Unreadable, match=r"settings\.json: hooks.* It was not changed"):
        hooks_file.add_hooks(settings, {"PreToolUse": OURS}, PATH)
    assert settings == {"hooks": hooks}


def test_the_order_of_hooks_makes_no_difference_and_their_words_do() -> None:
    other = {"hooks": [{"command": "x"}]}
    assert hooks_file.is_same({"hooks": {"Stop": [OURS, other]}}, {"hooks": {"Stop": [other, OURS]}})
    assert not hooks_file.is_same({"hooks": {"Stop": [OURS]}}, {"hooks": {"Stop": [other]}})
    assert not hooks_file.is_same({"hooks": {"Stop": [OURS]}}, {"hooks": {"Stop": [OURS, OURS]}})


def test_each_project_has_a_key_file_of_its_own(target: connect.Target) -> None:
    projects = [replace(target, project=target.home / name) for name in "ab"]
    paths = {hooks_file.key_path(place, "x") for place in (target, *projects)}
    assert len(paths) == 3 and all(path.is_relative_to(target.home / ".config" / "toolcards") for path in paths)


def test_a_key_is_written_read_and_removed_with_its_folders(target: connect.Target) -> None:
    assert hooks_file.read_key(target, "x") == ""
    change = hooks_file.plan_key(target, "x", target.key)
    assert change.secret == target.key and change.after == f"{target.key}\n"
    connect.write_changes([change])
    assert hooks_file.read_key(target, "x") == target.key
    removal = hooks_file.plan_key(target, "x", None)
    assert removal.secret == target.key and removal.after is None  # so its diff does not show the key
    connect.write_changes([removal])
    assert not hooks_file.key_path(target, "x").parents[1].exists() and (target.home / ".config").exists()


def test_only_a_file_that_we_wrote_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "hook"
    assert hooks_file.read_own_file(path) is None
    for text in ("", "{}", f"# {TAG}\n"):
        path.write_text(text)
        with pytest.raises(connect.Unreadable, match=r"not written by Toolcards.* A hint"):
            hooks_file.read_own_file(path, " A hint.")
    path.write_text(f"toolcards hook x --by {TAG}\n")
    assert hooks_file.read_own_file(path) == path.read_text()


@pytest.mark.parametrize("gates", [True, False])
def test_only_a_gating_hook_that_cannot_start_blocks(
    gates: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "toolcards"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    line = hooks_file.format_command(["x", "a b"], gates=gates)
    assert f"hook x 'a b' --by {TAG}" in line
    process = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=60)
    assert (process.returncode, "nothing was run" in process.stderr) == ((2, True) if gates else (3, False))
