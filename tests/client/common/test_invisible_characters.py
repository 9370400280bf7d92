"""Every invisible character gets a mark, wherever it is, and visible text stays as it is."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcards.client.common.invisible_characters import (
    INVISIBLE,
    VISIBLE_JOINERS,
    name_character,
    replace_invisible,
)

ALL = [chr(code) for code in range(sys.maxunicode + 1)]


@pytest.mark.slow
def test_each_character_of_unicode_is_marked_exactly_if_it_is_listed() -> None:
    for character in ALL:
        expected = name_character(character) if INVISIBLE.match(character) else character
        assert replace_invisible(character) == expected
        assert replace_invisible(f"a{character}b\n") == f"a{expected}b\n"


@given(st.text(st.sampled_from("ab\t\n\r\x00é…漢\u200d\ufe0f\u202e\ud83d\U0001f600©#\u20e3\U000e0041"), max_size=30))
def test_texts_are_marked_as_if_each_character_was_looked_at(text: str) -> None:
    joiners = {match.start() for match in VISIBLE_JOINERS.finditer(text)}
    marked_text = re.sub(INVISIBLE, lambda m: m[0] if m.start() in joiners else name_character(m[0]), text)
    assert replace_invisible(text) == marked_text
    assert (replace_invisible(text) is text) == (INVISIBLE.search(text) is None)
