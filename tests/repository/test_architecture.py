"""docs/architecture.md shows the code that is there: nothing in its tree is missing, and no package is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "architecture.md").read_text()
TREE = MAP[MAP.index("## The tree") : MAP.index("## One frame")]
PLACES = re.findall(r"^\| `([^`]+)` \|", TREE, re.MULTILINE)
PACKAGES = sorted(
    f"{path.relative_to(ROOT)}/"
    for site in ("toolcards", "dashboard")
    for pattern in ("*", "core/*", "gate/*")
    for path in (ROOT / site).glob(pattern)
    if (path / "__init__.py").exists() and path.name not in {"migrations", "templatetags"}
)


@pytest.mark.parametrize("place", PLACES)
def test_what_the_tree_names_is_there(place: str) -> None:
    path = ROOT / place
    assert path.is_dir() if place.endswith("/") else path.is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_in_the_tree(package: str) -> None:
    assert package in PLACES


@pytest.mark.parametrize(
    "path", re.findall(r"`((?:toolcards|adapters|client|core|connect|tests|dashboard|gate)/[\w/]+\.\w+)`", MAP)
)
def test_every_file_that_is_named_exists(path: str) -> None:
    assert any((ROOT / base / path).is_file() for base in (".", "toolcards"))
