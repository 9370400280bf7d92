"""Tables of settings, commands and recipes say what the code says, and links in the pages lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dashboard.environment import SECRET_NAMES, Environment
from toolcards.adapters import ADAPTERS
from toolcards.connect import RECIPES
from toolcards.core.calls.card import ToolCallState

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SETTINGS = (ROOT / "docs/settings.md").read_text()
PAGES = {
    "`protocol=`": (ROOT / "docs/api.md").read_text(),
    "Variable": SETTINGS,
    "Command": SETTINGS,
    "`make …`": (ROOT / "CONTRIBUTING.md").read_text(),
}
FOLDERS = [ROOT / "toolcards/management/commands", ROOT / "dashboard/management/commands"]


def table(heading: str) -> list[str]:
    """Return the first cells, without their backticks, of the table whose first heading this is."""
    lines = PAGES.get(heading, README).split(f"| {heading} |", 1)[1].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(line.split("|")[1].strip().strip("`"))
    return rows


def test_every_state_is_explained() -> None:
    assert table("State") == [state.value for state in ToolCallState]


def test_every_protocol_is_listed() -> None:
    assert sorted(table("`protocol=`")) == sorted(ADAPTERS)


def test_every_setting_is_listed() -> None:
    assert sorted(table("Variable")) == sorted(f"TOOLCARDS_{name.upper()}" for name in Environment.model_fields)


def test_every_setting_that_a_file_may_hold_is_named() -> None:
    paragraph = SETTINGS.split("`_FILE` after the name", 1)[1].split("| Variable |", 1)[0]
    assert set(re.findall(r"`([A-Z_]+)`", paragraph)) == {name.upper() for name in SECRET_NAMES}


def test_every_plain_default_is_true() -> None:
    rows = re.findall(r"^\| `TOOLCARDS_(\w+)` \|.*\| `([^`]+)` \|$", SETTINGS, re.MULTILINE)
    real = {name: Environment.model_fields[name.lower()].default for name, _ in rows}
    default_texts = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in real.items()}
    assert dict(rows) == default_texts


def test_every_command_is_listed() -> None:
    there = [path.stem for folder in FOLDERS for path in folder.glob("[a-z]*.py")]
    assert sorted(table("Command")) == sorted([*there, "approvals"])  # which needs no Django


def test_every_recipe_is_listed() -> None:
    recipe_names = [re.findall(r"^\[?`?([\w-]+)", cell) for cell in table("`connect …`")]
    assert sorted(name for names in recipe_names for name in names) == sorted(recipe.name for recipe in RECIPES)


def test_every_make_target_is_listed() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert table("`make …`") == targets


@pytest.mark.parametrize(
    "file",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/settings.md",
        "docs/operations.md",
        "docs/performance.md",
        "docs/connect-python.md",
        "docs/connect-javascript.md",
        "docs/following.md",
        "docs/api.md",
    ],
)
def test_links_lead_somewhere(file: str) -> None:
    page = ROOT / file
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_only_real_settings_are_named_in_the_pages() -> None:
    ours = {"TOOLCARDS_PERSON_PASSWORD", "TOOLCARDS_URL", "TOOLCARDS_TOKEN"}  # of a command, and of the client
    ours |= {f"TOOLCARDS_{name.upper()}_FILE" for name in SECRET_NAMES}
    known_settings = {f"TOOLCARDS_{name.upper()}" for name in Environment.model_fields} | ours
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        assert set(re.findall(r"TOOLCARDS_[A-Z_]+[A-Z]", page.read_text())) <= known_settings, page


@pytest.mark.parametrize("line", ["", "\nif name := 1:\n    pass\n"])
def test_an_old_python_can_read_the_bootstrap_that_turns_it_away(line: str) -> None:
    source = (ROOT / "scripts/bootstrap.py").read_text() + line
    if line:
        with pytest.raises(SyntaxError):
            ast.parse(source, feature_version=(3, 6))
    else:
        ast.parse(source, feature_version=(3, 6))
