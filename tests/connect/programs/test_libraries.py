"""Connecting agent libraries: an environment file and copies of the client, and undo."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.connecting import tree
from tests.support.server import PATIENCE
from toolcards import connect

LIBRARIES = [recipe for recipe in connect.RECIPES if recipe.by_project]
PYTHON, AI_SDK = connect.get_recipe("python"), connect.get_recipe("ai-sdk")


@pytest.fixture
def project(target: connect.Target, tmp_path: Path) -> connect.Target:
    folder = tmp_path / "project"
    folder.mkdir()
    return replace(target, project=folder)


@pytest.mark.parametrize("recipe", LIBRARIES, ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("before", [None, "", "A=1\n", "A=1", "# note\nTOOLCARDS_URL=x\n\n"])
def test_a_library_is_connected_once_and_undone_exactly(
    project: connect.Target, recipe: connect.Recipe, before: str | None
) -> None:
    assert project.project is not None
    names = {path.name for path in (change.path for change in recipe.plan(project))}
    env = project.project / (".env.local" if ".env.local" in names else ".env")
    if before is not None:
        env.write_text(before)
    connect.write_changes(recipe.plan(project))
    assert f"TOOLCARDS_URL={project.url}\nTOOLCARDS_AGENT_KEY={project.key}\n" in env.read_text()
    assert recipe.read_key(project) == project.key
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    assert not any(change.is_needed for change in recipe.plan(project))
    assert not any(change.is_needed for change in recipe.plan(replace(project, key="")))
    connect.write_changes(recipe.plan(replace(project, url="http://127.0.0.1:9")))
    assert env.read_text().count("TOOLCARDS_AGENT_KEY=") == 1 and "127.0.0.1:9" in env.read_text()
    connect.write_changes(recipe.undo(project))
    assert tree(project.project) == ({env.name: before} if before else {})
    assert [path for path in project.project.iterdir() if path.is_dir()] == []
    assert not any(change.is_needed for change in recipe.undo(project))


def test_the_copied_client_is_the_one_that_is_imported(project: connect.Target) -> None:
    connect.write_changes(PYTHON.plan(project))
    code = "import toolcards.client; print(toolcards.client.__file__)"
    completed = subprocess.run(
        [sys.executable, "-c", code], cwd=project.project, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert completed.stdout.strip() == f"{project.project}/toolcards/client/__init__.py", completed.stderr
    connect.write_changes(PYTHON.undo(project))
    assert tree(project.project or Path()) == {}  # what Python compiled is gone too


def test_a_foreign_file_is_not_overwritten_and_not_removed(project: connect.Target) -> None:
    assert project.project is not None
    theirs = project.project / "toolcards" / "ai-sdk.mjs"
    theirs.parent.mkdir()
    theirs.write_text("export const mine = 1;\n")
    with pytest.raises(connect.Unreadable, match="not written by Toolcards"):
        AI_SDK.plan(project)
    assert not any(change.is_needed for change in AI_SDK.undo(project))


def test_two_recipes_in_one_project_share_their_copies(project: connect.Target) -> None:
    assert project.project is not None
    tanstack = connect.get_recipe("tanstack-ai")
    for recipe in (AI_SDK, tanstack):
        connect.write_changes(recipe.plan(project))
    connect.write_changes(AI_SDK.undo(project))
    assert "toolcards/ai-sdk.mjs" in tree(project.project) and tanstack.read_key(project) == project.key
    connect.write_changes(tanstack.undo(project))
    assert tree(project.project) == {}


def test_a_copy_under_a_former_name_is_renewed_and_removed(project: connect.Target) -> None:
    assert project.project is not None
    former = project.project / "toolcards" / "asking.mjs"
    former.parent.mkdir()
    former.write_text(
        f"// {connect.base.TAG}: a copy; connecting again renews it, --undo removes it\nexport const old = 1;\n"
    )
    connect.write_changes(AI_SDK.plan(project))
    assert "export * from './gate-client.mjs'" in former.read_text()
    assert not (former.parent / "mirroring.mjs").exists()
    connect.write_changes(AI_SDK.undo(project))
    assert not former.exists()


def test_a_copy_is_reported_in_one_line(project: connect.Target) -> None:
    diff = "".join(change.diff() for change in PYTHON.plan(project))
    assert "a copy of gate_client.py" in diff and "import" not in diff and "tck_…" in diff and project.key not in diff


@pytest.mark.parametrize("recipe", [each for each in LIBRARIES if each.probe_offline], ids=lambda recipe: recipe.name)
def test_what_was_copied_runs_nothing_without_a_server(project: connect.Target, recipe: connect.Recipe) -> None:
    if "ai-sdk.mjs" in str([change.path for change in recipe.plan(project)]) and not shutil.which("node"):
        pytest.skip("not here: Node.js")
    assert recipe.probe_offline is not None
    assert recipe.probe_offline(project) == ""  # not connected: nothing was seen
    connect.write_changes(recipe.plan(project))
    assert "reached" in recipe.probe_offline(project) or "gave no decision" in recipe.probe_offline(project)
