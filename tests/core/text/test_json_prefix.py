"""Late text of a decided input: each prefix of each spelling is accepted, and nothing else."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.client.common.json_text import is_same_json
from toolcards.core.text.json_prefix import is_json_prefix

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def write_randomly(value: Any, chance: random.Random) -> str:
    """Return one of the many JSON texts of the value."""
    space = chance.choice(["", " ", "\n\t", "  "])
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        inner = f",{space}".join(
            f"{write_randomly(k, chance)}{space}:{space}{write_randomly(v, chance)}" for k, v in items
        )
        return f"{{{space}{inner}{space}}}"
    if isinstance(value, list):
        return f"[{space}{f'{space},'.join(write_randomly(item, chance) for item in value)}{space}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=chance.random() < 0.5)
    return json.dumps(value)


@given(values, st.randoms(use_true_random=False))
def test_every_beginning_of_every_spelling_is_a_beginning(value: Any, chance: random.Random) -> None:
    text = write_randomly(value, chance)
    assert all(is_json_prefix(text[:length], value) for length in range(len(text) + 1)), text
    assert is_json_prefix(text + " \n", value)


@given(values, values, st.randoms(use_true_random=False))
def test_the_whole_text_of_another_value_is_not(value: Any, other: Any, chance: random.Random) -> None:
    text = write_randomly(other, chance)
    if not is_same_json(value, other) and not isinstance(other, (int, float)):  # a number may go on
        assert not is_json_prefix(text, value)


@loop_over(
    ("text", "value"),
    [
        ('{"a":1}x', {"a": 1}),
        ('{"a":1}{', {"a": 1}),
        ('{"a":1,', {"a": 1}),
        ('{"b', {"a": 1}),
        ('{"a":1,"a":1}', {"a": 1}),
        ("[1,", [1]),
        ("[2]", [1]),
        ("[]", [1]),
        ("]", []),
        ('"sta"', "staging"),
        ('"prod', "staging"),
        ("tru", False),
        ("nul", 0),
        ("1x", 1),
        ("true", 1),
        ('"\\u0070rod', "staging"),
        ('"\\ud83d\\ude01"', "😀"),
        ("x", {}),
        ("'", "a"),
        ('"a\\', "b"),
        ("NaN", 0),
        ('{"a" "', {"a": 1}),
    ],
)
def test_what_cannot_become_the_value_is_found_at_once(text: str, value: Any) -> None:
    assert not is_json_prefix(text, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {"a": 1}),
        ("  ", 1),
        ('"\\ud83d', "😀"),
        ('"\\ud83d\\', "😀"),
        ('"\\ud83d\\ude', "😀"),
        ('"a\\\\', "a\\b"),
        ('"\\u00', "é"),
        ("-", -5),
        ("1.", 1),
        ("1e", 100),
        ("10", 1000),
        ('{"b": 2, "a"', {"a": 1, "b": 2}),
    ],
)
def test_what_is_cut_anywhere_may_go_on(text: str, value: Any) -> None:
    assert is_json_prefix(text, value)


def test_a_deep_text_is_no_beginning_and_raises_nothing() -> None:
    assert not is_json_prefix("[" * 100_000, [[1]])
