"""Values that rules compare with."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.client.common.canonical_json import MAX_INTEGER, NotCanonical, canonicalize
from toolcards.core.policy.evaluation_context import UNREADABLE
from toolcards.core.policy.matching.operands import (
    MAX_TEXT,
    compile_glob,
    make_text_reader,
    read_canonical,
    read_text,
    read_unchanged,
)
from toolcards.core.policy.truth import UNDECIDED


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "ab", "."]), max_size=8), st.lists(st.sampled_from(["a", "b", "*"]), max_size=6)
)
def test_globs_agree_with_regular_expressions(text, pattern):

    text, pattern = "".join(text), "".join(pattern)
    expected = re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text, re.DOTALL) is not None
    assert compile_glob(pattern)(text) == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**54), 2**54) | st.floats() | st.text(st.characters(), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def test_a_value_that_needs_no_reading_is_the_same_object() -> None:
    for value in ([1], {"a": 1}, None, "x"):
        assert read_unchanged(value) is value


TEXTS = [
    ("", ""), ("x", "x"), ("Zoë 🦊\0", "Zoë 🦊\0"), ("a" * MAX_TEXT, "a" * MAX_TEXT),
    ("a" * (MAX_TEXT + 1), UNREADABLE), ("\ud800", UNREADABLE), ("x\udfffx", UNREADABLE), (None, UNREADABLE),
    (5, UNREADABLE), (True, UNREADABLE), (["x"], UNREADABLE), ({"x": 1}, UNREADABLE),
]  # fmt: skip


@loop_over(("value", "text"), TEXTS, ids=lambda value: repr(value)[:20])
def test_a_text_is_short_enough_and_valid_or_unreadable(value: Any, text: Any) -> None:
    assert read_text(value) == text


CANONICAL = [
    ("x", b'"x"'), ('a"\n', b'"a\\"\\n"'), (MAX_INTEGER, b"9007199254740991"), (-MAX_INTEGER, b"-9007199254740991"),
    (1.0, b"1"), (True, b"true"), (None, b"null"), ({"b": 1, "a": [2.5]}, b'{"a":[2.5],"b":1}'),
    ("\0", UNREADABLE), ("\ud800", UNREADABLE), (MAX_INTEGER + 1, UNREADABLE), (-MAX_INTEGER - 1, UNREADABLE),
    (float("nan"), UNREADABLE), (float("inf"), UNREADABLE), (1j, UNREADABLE), ({1: 1}, UNREADABLE),
]  # fmt: skip


@loop_over(("value", "spelling"), CANONICAL, ids=repr)
def test_a_value_has_one_spelling_or_is_unreadable(value: Any, spelling: Any) -> None:
    assert read_canonical(value) == spelling


@draw(200)
@given(VALUES)
def test_the_shortcuts_for_plain_values_spell_as_all_values_are_spelled(value: Any) -> None:
    try:
        spelling: Any = canonicalize(value)
    except NotCanonical:
        spelling = UNREADABLE
    assert read_canonical(value) == spelling


def test_a_reader_of_texts_parses_what_is_a_text_and_nothing_else() -> None:
    parsed_texts: list[str] = []

    def parse(text: str) -> Any:
        parsed_texts.append(text)
        return UNDECIDED if text == "odd" else text.upper()

    read = make_text_reader(parse)
    assert [read("x"), read("odd"), read(5), read("\ud800"), read("a" * (MAX_TEXT + 1))] == [
        "X", UNREADABLE, UNREADABLE, UNREADABLE, UNREADABLE,
    ]  # fmt: skip
    assert parsed_texts == ["x", "odd"]


def test_a_parsed_value_that_counts_as_false_is_readable() -> None:
    assert make_text_reader(lambda text: "")("x") == "" and make_text_reader(lambda text: False)("x") is False
