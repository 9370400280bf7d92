"""Inputs and outputs as text with their sizes: what is hidden is shown, and what is cut is stated."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.payloads import excerpts
from tests.support.payloads import PNG, read_input

HIDDEN_COMMAND = "\nrm -rf ~/work\n"


@pytest.mark.parametrize(
    ("arguments", "expected_text"),
    [
        ({"command": f"data:image/png;base64,{PNG}{HIDDEN_COMMAND}"}, "rm -rf ~/work"),
        (f"data:image/png;base64,{PNG};rm -rf ~", ";rm -rf ~"),
        ({"type": "image", "data": PNG, "command": "rm -rf ~"}, "rm -rf ~"),
        ({"steps": [{"type": "image", "data": PNG + HIDDEN_COMMAND}]}, "rm -rf ~/work"),
        ({"content": [{"type": "text", "text": "hi", "annotations": {"x": 1}}], "_meta": {"do": "rm"}}, "rm"),
        ({"content": [{"type": "text", "text": "hi", "annotations": {"do": "wipe"}}]}, "wipe"),
        ({"command": "ls \x1b[;./a"}, "ls U+001B[;./a"),
        ({"command": "ls \x1b[>/b", "nested": {"env": "\x1b[8mx"}}, "ls U+001B[>/b"),
        ({"file_path": "a", "content": "b", "mode": "\x1b[;./a"}, "U+001B[;./a"),
        ("\x1b[;./a " + "x" * 70_000, "U+001B[;./a"),
    ],
)
def test_an_input_shows_what_a_picture_or_a_terminal_would_hide(arguments: Any, expected_text: str) -> None:
    for cap in (excerpts.MAX_CHARACTERS_WAITING, None):
        assert expected_text in read_input(arguments, cap)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
)


@pytest.mark.slow
@given(JSON_VALUES)
def test_values_are_indented_as_json_indents_them(value: Any) -> None:
    assert excerpts.format_value(value) == (
        value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    )


@pytest.mark.parametrize("value", [{1: "a"}, {"a": object()}, {"a": {1, 2}}])
def test_what_is_no_json_is_named_by_its_type(value: Any) -> None:
    assert excerpts.format_value(value) == "dict"
