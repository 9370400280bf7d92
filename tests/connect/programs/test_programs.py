"""What programs with command hooks share: a key in a file of its own, an exact undo, and a probe without a server."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from toolcards import connect

GEMINI, COPILOT = connect.get_recipe("gemini-cli"), connect.get_recipe("copilot")
CURSOR = connect.get_recipe("cursor")
CLINE, GOOSE = connect.get_recipe("cline"), connect.get_recipe("goose")
EACH = pytest.mark.parametrize("recipe", [GEMINI, COPILOT, CURSOR, CLINE, GOOSE], ids=lambda recipe: recipe.name)


@EACH
def test_the_key_is_in_a_file_of_its_own_and_undo_leaves_nothing(
    target: connect.Target, recipe: connect.Recipe
) -> None:
    connect.write_changes(recipe.plan(target))
    (key_file,) = target.home.glob(".config/toolcards/keys/*.key")
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600 and recipe.read_key(target) == target.key
    others = [path for path in target.home.rglob("*") if path.is_file() and path != key_file]
    assert others and all(target.key not in path.read_text() for path in others)
    assert all(target.key not in change.diff() for change in recipe.plan(target))
    assert not any(change.is_needed for change in recipe.plan(connect.Target(target.url, "", None, target.home)))
    connect.write_changes(recipe.undo(target))
    assert not [path for path in target.home.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        (COPILOT, ".copilot/hooks/toolcards.json"),
        (GOOSE, ".agents/plugins/toolcards/hooks/hooks.json"),
        (CLINE, ".cline/hooks/SessionShutdown"),
    ],
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


@EACH
def test_the_probe_without_a_server_reads_what_the_hook_says(target: connect.Target, recipe: connect.Recipe) -> None:
    assert recipe.probe_offline is not None and recipe.probe_offline(target) == ""
    connect.write_changes(recipe.plan(target))
    assert "so nothing was run" in recipe.probe_offline(target)
