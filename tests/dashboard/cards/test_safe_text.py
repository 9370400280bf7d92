"""Agents' text as HTML: what cannot be seen is shown as a mark, and what people write stays."""

from __future__ import annotations

import pytest

from dashboard.cards import safe_text
from tests.support.tables import loop_over


@loop_over(
    ("text", "expected_text"),
    [
        ("\u202e", "U+202E"), ("\u200b", "U+200B"), ("\x00", "U+0000"), ("\ud800", "U+D800"), ("\U000e0041", "U+E0041"),
        ("\ufeff", "U+FEFF"), ("\x85", "U+0085"), ("\u2028", "U+2028"), ("\u2800", "U+2800"), ("\u115f", "U+115F"),
        ("\u1160", "U+1160"), ("\u3164", "U+3164"), ("\uffa0", "U+FFA0"), ("\u034f", "U+034F"), ("\u061c", "U+061C"),
        ("\u180e", "U+180E"), ("\u00a0", "U+00A0"), ("\u2003", "U+2003"), ("\u202f", "U+202F"), ("\u3000", "U+3000"),
        ("\u00ad", "U+00AD"), ("\ufe0f", "U+FE0F"), ("\ufe00", "U+FE00"), ("\U000e0100", "U+E0100"),
        ("\u200d", "U+200D"),
        ("\u17b4", "U+17B4"), ("\U0001d159", "U+1D159"), ("\U00016fe4", "U+16FE4"), ("\U00013437", "U+13437"),
        ("\U0003ffff", "U+3FFFF"), ("\x0b", "U+000B"), ("\r", "U+000D"), ("\x9b", "U+009B"), ("\u2066", "U+2066"),
    ],
)  # fmt: skip
def test_what_cannot_be_seen_is_drawn(text: str, expected_text: str) -> None:
    assert safe_text.mark_html(f"a{text}b") == f'a<span class="mark">{expected_text}</span>b'
    assert safe_text.mark_text(f"a{text}b") == f"a{expected_text}b"


@loop_over(
    ("text", "expected_text"),
    [
        ("echo" + "\n" * 400 + "rm -rf /", 'echo\n<span class="mark">399 empty lines</span>\nrm -rf /'),
        ("echo" + " \n\t" * 1000 + "rm", 'echo \n<span class="mark">999 empty lines</span>\n\trm'),
        ("echo" + " " * 4000 + "; rm", 'echo<span class="mark">4,000 spaces</span>; rm'),
        ("def f():\n\n\n" + " " * 40 + "x", "def f():\n\n\n" + " " * 40 + "x"),
    ],
)  # fmt: skip
def test_many_empty_lines_and_spaces_are_a_mark(text: str, expected_text: str) -> None:
    assert safe_text.mark_gaps(safe_text.mark_html(text)) == expected_text


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "tab\tand\nline",
        "Zürich",
        "日本語",
        "👩\u200d🚀",
        "❤\ufe0f",
        "مرحبا",
        "👁\ufe0f\u200d🗨\ufe0f",
        "1\ufe0f\u20e3",
    ],
)
def test_what_people_write_stays(text: str) -> None:
    assert safe_text.mark_html(text) == text
