"""Errors and outputs in one line: what a terminal would print of them."""

from __future__ import annotations

import pytest

from toolcards.core.text.terminal_sequences import flatten_text, strip_sequences


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\x1b[31mFAILED\x1b[0m test_cart.py", "FAILED test_cart.py"),
        ("\x1b[1m\x1b[31mE   assert 1 == 2\x1b[0m\n\n\x1b[2K1 failed\x1b[0m", "E assert 1 == 2 1 failed"),
        ("see \x1b]8;;https://example.org/e1\x1b\\[-Wall]\x1b]8;;\x1b\\ and \x1b]0;title\x07go", "see [-Wall] and go"),
        ("done\x1b(B\x1b[m", "done"),
        ("a lone \x1b stays, and \x1b[3", "a lone \x1b stays, and \x1b[3"),
        ("an unfinished \x1b]0;title\nhides no line", "an unfinished \x1b]0;title hides no line"),
    ],
)
def test_a_line_of_an_error_says_what_a_terminal_would_print(text: str, line: str) -> None:
    assert flatten_text(text, 200) == line


def test_a_text_without_sequences_stays_as_it_is_and_its_line_is_bounded() -> None:
    assert strip_sequences("a\n b") == "a\n b"
    assert flatten_text("word " * 10_000, 12) == "word word wo"
