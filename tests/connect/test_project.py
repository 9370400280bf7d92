"""The files of a project: lines in its environment file, and copies that are ours by their first line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.connecting import tree
from tests.support.tables import loop_over
from toolcards import connect
from toolcards.connect import project as project_files
from toolcards.connect.project import ProjectFiles, copy_file, find_static_file, mark, remove_copy


@pytest.fixture
def place(target: connect.Target, tmp_path: Path) -> connect.Target:
    """A project of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    return replace(target, project=folder)


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A file of ours, as it is in the installation."""
    path = tmp_path / "client.mjs"
    path.write_text("export const one = 1\n")
    return path


def make_recipe(name: str, original: Path) -> ProjectFiles:
    return ProjectFiles(
        name, ".env", lambda: {"toolcards/client.mjs": original}, lambda: {"toolcards/old.mjs": original}
    )


def test_the_folder_is_the_projects_or_the_current_one(
    place: connect.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert project_files.project_folder(place) == place.project
    assert project_files.project_folder(replace(place, project=None)) == tmp_path


@loop_over("own", ["", "A=1\n", "A=1", "TOOLCARDS_AGENT_KEY=mine\n"])
def test_what_people_wrote_stays_and_the_key_is_only_read_from_our_lines(
    place: connect.Target, original: Path, own: str
) -> None:
    folder, recipe = project_files.project_folder(place), make_recipe("js", original)
    (folder / ".env").write_text(own)
    assert recipe.read_key(place) == ""
    connect.write_changes(recipe.plan(place))
    assert (folder / ".env").read_text().startswith(own) and recipe.read_key(place) == place.key
    renewed = replace(place, key="", url="http://127.0.0.1:9/")
    connect.write_changes(recipe.plan(renewed))  # the key is kept
    assert f"TOOLCARDS_URL=http://127.0.0.1:9\nTOOLCARDS_AGENT_KEY={place.key}\n" in (folder / ".env").read_text()
    connect.write_changes(recipe.undo(place))
    assert tree(folder) == ({".env": own} if own else {})


def test_lines_that_were_added_behind_ours_are_not_joined_with_those_above(
    place: connect.Target, original: Path
) -> None:
    folder, recipe = project_files.project_folder(place), make_recipe("js", original)
    (folder / ".env").write_text("A=1")
    connect.write_changes(recipe.plan(place))
    (folder / ".env").write_text((folder / ".env").read_text() + "B=2\n")
    connect.write_changes(recipe.undo(place))
    assert (folder / ".env").read_text() == "A=1\nB=2\n"


def test_copies_stay_while_another_recipe_is_connected_here(place: connect.Target, original: Path) -> None:
    folder, first, second = (
        project_files.project_folder(place),
        make_recipe("js", original),
        make_recipe("ts", original),
    )
    for recipe in (first, second):
        connect.write_changes(recipe.plan(place))
    connect.write_changes(first.undo(place))
    assert (folder / "toolcards" / "client.mjs").exists() and second.read_key(place) == place.key
    connect.write_changes(second.undo(place))
    assert tree(folder) == {} and not (folder / "toolcards").exists()


def test_a_copy_under_a_former_name_is_renewed_where_it_is_and_made_nowhere(
    place: connect.Target, original: Path
) -> None:
    folder, recipe = project_files.project_folder(place), make_recipe("js", original)
    connect.write_changes(recipe.plan(place))
    former = folder / "toolcards" / "old.mjs"
    assert not former.exists()
    former.write_text(mark(".mjs") + "export const older = 0\n")
    connect.write_changes(recipe.plan(place))
    assert former.read_text() == mark(".mjs") + original.read_text()
    connect.write_changes(recipe.undo(place))
    assert tree(folder) == {}


def test_a_file_of_others_is_neither_overwritten_nor_removed(tmp_path: Path, original: Path) -> None:
    foreign = tmp_path / "x.mjs"
    foreign.write_text("// mine\n")
    with pytest.raises(connect.Unreadable, match="was not written by Toolcards"):
        copy_file(tmp_path, "x.mjs", original)
    assert not remove_copy(tmp_path, "x.mjs").is_needed and not remove_copy(tmp_path, "missing.mjs").is_needed


def test_the_original_itself_is_no_copy(tmp_path: Path, original: Path) -> None:
    (tmp_path / "same.mjs").write_text(original.read_text())
    for name in ("client.mjs", "same.mjs"):
        assert not copy_file(tmp_path, name, original).is_needed


def test_a_copy_is_marked_and_shown_as_one_line(tmp_path: Path, original: Path) -> None:
    change = copy_file(tmp_path, "x.mjs", original)
    assert change.after == mark(".mjs") + original.read_text() and mark(".py").startswith("# ")
    assert len(change.diff().splitlines()) == 2 and "a copy of client.mjs" in change.diff()
    connect.write_changes([change])
    assert not copy_file(tmp_path, "x.mjs", original).is_needed and remove_copy(tmp_path, "x.mjs").is_needed


def test_every_module_of_the_client_is_copied_where_it_is_imported() -> None:
    files = project_files.copy_sdk()
    assert {"toolcards/client/__init__.py", "toolcards/client/common/canonical_json.py"} <= files.keys()
    assert all(file.is_file() and name.endswith(f"/{file.name}") for name, file in files.items())
    assert not any("__pycache__" in name for name in files)


def test_a_static_file_is_found_and_a_missing_one_is_named() -> None:
    assert project_files.copy_modules("gate-client.mjs")()["toolcards/gate-client.mjs"].is_file()
    with pytest.raises(connect.Unreadable, match=r"nothing\.mjs is not among"):
        find_static_file("nothing.mjs")
