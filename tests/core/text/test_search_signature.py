"""Signatures: a text that contains a needle has all of its bits, in any spelling."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcards.core.text.search_signature import (
    BITS,
    EVERY_BIT,
    LONGEST,
    build_call_text,
    compute_bits,
    list_needle_bits,
    list_needles,
)

TEXTS = st.text(max_size=60)


@given(TEXTS, TEXTS, TEXTS)
def test_a_text_has_the_bits_of_each_text_in_it(before: str, needle: str, after: str) -> None:
    text = build_call_text(json.dumps({"input": before + needle + after}), (before, after))
    for each in (before, after, json.dumps(needle)[1:-1]):
        assert compute_bits(each.casefold()) <= compute_bits(text)


@given(TEXTS, TEXTS)
def test_a_match_of_a_call_is_always_a_candidate(text: str, query: str) -> None:
    stored_text = build_call_text(json.dumps({"input": text}), (text,))
    is_match = any(needle in stored_text for needle in list_needles(query))
    bits = list_needle_bits(query)
    assert not is_match or not bits or any(each <= compute_bits(stored_text) for each in bits)


def test_ordinary_texts_leave_most_bits_unset() -> None:
    words = " ".join(f"pytest src/module_{number}.py -q" for number in range(30))
    assert 20 < len(compute_bits(words)) < BITS / 4
    assert not compute_bits("zebra-crossing") <= compute_bits(words)


@pytest.mark.parametrize("query", ["", "a", "ab"])
def test_a_query_without_a_trigram_has_no_bits(query: str) -> None:
    assert list_needle_bits(query) == []


def test_a_text_beyond_the_limit_may_contain_anything() -> None:
    assert compute_bits("a" * (LONGEST + 1)) == EVERY_BIT
