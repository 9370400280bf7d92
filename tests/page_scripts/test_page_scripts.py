"""The pure parts of the page scripts, run by Node.js's own test runner."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")
SCRIPTS = sorted((ROOT / "static" / "toolcards").rglob("*.js"))
CLASSIC = {"theme.js"}  # runs before the first paint, so it cannot be a module


@pytest.mark.skipif(NODE is None, reason="no Node.js")
@pytest.mark.parametrize("test", sorted(Path(__file__).parent.rglob("*.test.mjs")), ids=lambda path: path.name)
def test_node_runs_the_tests_of_the_modules(test: Path) -> None:
    assert NODE is not None
    result = subprocess.run([NODE, "--test", str(test)], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_page_script_is_a_module_without_globals() -> None:
    for script in SCRIPTS:
        if script.name not in CLASSIC:
            text = script.read_text()
            assert re.search(r"^(import|export) ", text, re.MULTILINE), script.name
            assert not re.search(r"\b(window|globalThis)\.\w+ *=[^=]|Object\.assign\((window|globalThis)", text), (
                script.name
            )


def test_every_import_of_a_page_script_names_a_file_and_ends_with_a_semicolon() -> None:
    for script in SCRIPTS:  # the storage of static files follows only these
        for line in re.findall(r"^import .*", script.read_text(), re.MULTILINE):
            match = re.fullmatch(r"import \{[^}]+\} from '(\.\.?/[a-z_/]+\.js)';", line)
            assert match and (script.parent / match[1]).exists(), f"{script.name}: {line}"


def test_page_scripts_are_in_rooms_of_at_most_twelve_modules() -> None:
    rooms = Counter(script.parent.name for script in SCRIPTS)
    assert rooms.pop("toolcards") == len({"main.js", "theme.js"})
    assert max(rooms.values()) <= 12, rooms


def test_the_test_of_a_page_script_is_in_the_room_of_the_script() -> None:
    scripts = {script.relative_to(ROOT / "static" / "toolcards").with_suffix("").as_posix() for script in SCRIPTS}
    folder = Path(__file__).parent
    tests = {path.relative_to(folder).as_posix().removesuffix(".test.mjs") for path in folder.rglob("*.test.mjs")}
    assert tests and tests <= scripts
