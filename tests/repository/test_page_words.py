"""The check of what users read (`make lint`) finds a banned phrase in each kind of file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A file of each kind, with a phrase that is banned only where users read, and how the check reports it.
PLANTED = {
    "toolcards/client/planted.py": ('"""It."""\n\nTEXT = "A person said yes."\n', "3: (?:said|says|say) (?:yes|no)"),
    "toolcards/planted.py": ('"""A core."""\n\nTEXT = f"{1} is {2} news late."\n', "3: its news|news late"),
    "dashboard/planted.py": ('"""A page."""\n\nTEXT = "The call broke\\noff."\n', "3: br[eo]a?ks?e?n? off"),
    "templates/planted.html": ("{% if x %}\n<p>No one is\n told about it</p>\n", "2: told about"),
    "templates/label.html": ('<p class="ticked" aria-label="Whose fault">x</p>\n', "1: whose fault"),
    "docs/planted.md": ("# Read\n\n`only looks` is\na tool that only\nlooks.\n", "4: only looks?"),
    "README.md": ("# Read\n\nA mail address.\n", "3: mail address"),
    "static/toolcards/planted.js": ("// it went away\nsay(`It ${x} went away`);\n", "2: went away"),
    "static/clients/planted.mjs": ("/* colour */\nconst TEXT = 'Without saying why';\n", "2: without"),
}  # fmt: skip
# Texts with the same phrases that no user reads.
FREE = {
    "toolcards/values.py": '"""The card went away: its news came in."""\n\nKIND = "everybody"  # it came in\n',
    "tests/test_planted.py": 'TEXT = "It went away."\n',
    "docs/code.md": "```\nit came in\n```\n",
    "templates/tags.html": '{# it came in #}<p class="ticked the">{{ went|away }}</p>\n',
}


@pytest.fixture(scope="module")
def planted_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with nothing but the check, its word list and the planted files."""
    tree = tmp_path_factory.mktemp("tree")
    (tree / "scripts").mkdir()
    for name in ("lint_language.py", "user_texts.py", "language.toml"):
        shutil.copy(ROOT / "scripts" / name, tree / "scripts")
    (tree / "scripts" / "language_baseline.json").write_text(json.dumps({}))
    for path, text in ({path: text for path, (text, _) in PLANTED.items()} | FREE).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    return tree


def check(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/lint_language.py", *arguments]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True)


def test_a_banned_phrase_is_found_in_each_kind_of_file(planted_tree: Path) -> None:
    listed = [line.split(": ", 1) for line in check(planted_tree, "--list").stdout.splitlines()]
    offenses = {place.rpartition(":")[0]: f"{place.rpartition(':')[2]}: {key}" for place, key in listed}
    assert offenses.keys() == PLANTED.keys()
    assert not {path: offenses[path] for path, (_, report) in PLANTED.items() if not offenses[path].startswith(report)}
    assert check(planted_tree).returncode == 1


def test_a_file_without_banned_phrases_passes(planted_tree: Path) -> None:
    for path in PLANTED:
        (planted_tree / path).unlink()
    completed = check(planted_tree)
    assert completed.returncode == 0, completed.stdout


def test_the_glossary_has_one_row_for_each_term() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)[1:]
    assert len(rows) > 20 and len(rows) == len({row.lower() for row in rows})
