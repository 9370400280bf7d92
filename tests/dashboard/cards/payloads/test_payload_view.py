"""Inputs and outputs as text with their sizes: what is hidden is shown, and what is cut is stated."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards import rendering
from dashboard.cards.payloads import payload_view
from tests.support.cards import a_card, call_of
from tests.support.payloads import PNG, S, read_input
from toolcards.core.calls.card import CardApproval

HIDDEN_COMMAND = "\nrm -rf ~/work\n"


@pytest.mark.parametrize(
    ("arguments", "shown"),
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
def test_an_input_shows_what_a_picture_or_a_terminal_would_hide(arguments: Any, shown: str) -> None:
    for cap in (payload_view.MAX_CHARACTERS_WAITING, None):
        assert shown in read_input(arguments, cap)


LINES = st.lists(st.sampled_from(["a", "b", "", "c\u2028d", "x\ry"]), max_size=12).map("\n".join)


@given(LINES, LINES)
def test_a_change_has_every_line_that_it_removes_and_adds(before: str, after: str) -> None:
    lines = payload_view.diff_lines(before, after)
    old, new = before.split("\n"), after.split("\n")
    removed, added = Counter(old) - Counter(new), Counter(new) - Counter(old)
    assert removed <= Counter(line for sign, line in lines if sign == "-")
    assert added <= Counter(line for sign, line in lines if sign == "+")
    for signs, whole in (("- ", before), ("+ ", after)):
        assert "\n".join(line for sign, line in lines if sign in signs) in whole


def test_a_change_at_the_end_of_a_long_text_is_shown_with_its_surroundings() -> None:
    text = "\n".join(f"line {number}" for number in range(2_000))
    assert payload_view.diff_lines(text, f"{text}!") == [
        (" ", "line 1996"), (" ", "line 1997"), (" ", "line 1998"), ("-", "line 1999"), ("+", "line 1999!"),
    ]  # fmt: skip


def test_a_change_that_does_not_fit_says_so_also_on_the_button() -> None:
    before, after = [f"line {number}" for number in range(600)], [f"lime {number * 7}" for number in range(600)]
    began = time.process_time()
    assert payload_view.diff_lines(before, after)[-1] == ("…", "The rest of the change is not shown")
    assert payload_view.diff_lines("x" * 60_000, "y" * 60_000)[-1][0] == "…"
    proposal = CardApproval(id="apr_1", votable=True, args_sha256="ab" * 32, edited=after, has_edited=True)
    html = rendering.render_uncached(call_of(a_card(S.APPROVAL_REQUESTED, input=before, approval=proposal)))
    assert "(part of the change not shown)" in html
    assert time.process_time() - began < 20  # comparing each line with each other takes minutes


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
)


@given(JSON_VALUES)
def test_values_are_indented_as_json_indents_them(value: Any) -> None:
    assert payload_view.format_value(value) == (
        value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    )


@pytest.mark.parametrize("value", [{1: "a"}, {"a": object()}, {"a": {1, 2}}])
def test_what_is_no_json_is_named_by_its_type(value: Any) -> None:
    assert payload_view.format_value(value) == "dict"
