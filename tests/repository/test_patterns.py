"""Patterns mean the same in every Python that the README promises."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Before 3.11.5 `re` matches a possessive repetition of a group, or an atomic group, wrongly (CPython issue 101955).
DIFFERING = re.compile(r"(?<!\\)(?:[*?}]|(?<!\+)\+)\+(?! [+-])|\(\?>")
FOLDERS = ("toolcards", "dashboard", "scripts")


def is_differing(text: str) -> bool:
    """Return whether the text has such a form; in a set of characters, a sign means itself."""
    return DIFFERING.search(re.sub(r"\[[^\]]*\]", "x", text)) is not None


@pytest.mark.slow
def test_no_pattern_is_possessive_or_atomic():
    places = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if "import re" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_differing(node.value)
        if node.value not in {"+++", "+++ "}  # of a patch
    ]
    assert not places


def test_the_forms_that_differ_are_found():
    differing = ["(?:a|b){1,9}+", "a++", "(?:a)*+", "a?+", "(?>a)"]
    same = [r"\++", "a+", "[0-9]+", r"\d{3}", "[*+]+"]
    assert [text for text in differing + same if is_differing(text)] == differing
