"""Parsing and comparing JSON text."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.client.common.json_text import format_text, is_same_json, parse


@pytest.mark.parametrize("text", ["", "{", "NaN", "-Infinity", "1e999", "[" * 100_000, "{} {}"])
def test_what_is_not_json_is_not_parsed(text: str) -> None:
    assert parse(text) == (False, None)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [(1, 1.0, True), (1, True, False), (0, False, False), (None, False, False), ("1", 1, False), ([1], [1.0], True),
     ({"a": [True]}, {"a": [1]}, False), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True), ([], {}, False),
     ("", None, False)],
)  # fmt: skip
def test_same_is_same_as_json(a: Any, b: Any, equal: bool) -> None:
    assert is_same_json(a, b) is equal


def test_bottomless_values_are_handled() -> None:
    one: Any = []
    two: Any = []
    for _ in range(50_000):
        one, two = [one], [two]
    assert is_same_json(one, two) is False
    assert isinstance(format_text(one), str)
