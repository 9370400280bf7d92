"""Terminal colors in outputs: each sequence becomes a class, and no text is lost."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards import rendering
from dashboard.cards.payloads import ansi, patch
from tests.support.cards import a_card, call_of
from tests.support.payloads import S, list_elements, read_text, render_input, render_output
from toolcards.core.calls.card import CardError
from toolcards.core.text.terminal_sequences import strip_sequences


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("\x1b[31mred\x1b[0m plain", '<span class="ansi-red">red</span> plain'),
        ("\x1b[1;32mok\x1b[m!", '<span class="ansi-green ansi-bold">ok</span>!'),
        ("\x1b[91mbright\x1b[39m", '<span class="ansi-red">bright</span>'),
        ("\x1b[38;5;196mcube\x1b[0m", '<span class="ansi-red">cube</span>'),
        ("\x1b[38;2;10;250;10mrgb\x1b[0m", '<span class="ansi-green">rgb</span>'),
        ("\x1b[48;5;196mno background\x1b[0m", "no background"),
        ("\x1b[2K\x1b[1Gline", "line"),
        ("\x1b[38;5mcut short", "cut short"),
        ("\x1b]8;;https://example.org\x1b\\a link\x1b]8;;\x07 \x1b(B", "a link "),
        ("\x1b[999999999999mbig", "big"),
        ("\x1b[3", '<span class="mark">U+001B</span>[3'),
    ],
)
def test_terminal_sequences_become_classes(text: str, html: str) -> None:
    assert ansi.render_colors(text) == html


@given(st.text(alphabet=st.sampled_from("\x1b[]0123456789;:mKHJ<>&\"'abc\n\x07"), max_size=200))
def test_no_terminal_text_is_lost_or_becomes_markup(text: str) -> None:
    html = ansi.render_colors(text)
    assert {tag for tag, _ in list_elements(html)} <= {"span"}
    visible_text = (
        read_text(html).replace("U+001B", "\x1b").replace("U+0007", "\x07").replace("&lt;", "<").replace("&gt;", ">")
    )
    assert visible_text.replace("&amp;", "&") == " ".join(strip_sequences(text).split())


def test_a_failing_test_run_keeps_its_colors_in_the_card_and_none_in_its_preview() -> None:
    text = "\x1b[31mFAILED\x1b[0m test_cart.py"
    html = render_output({"stdout": text, "exit_code": 1}, "execute")
    assert '<span class="ansi-red">FAILED</span>' in html and "U+001B" not in html.split('class="raw"')[0]
    error = a_card(S.OUTPUT_ERROR, error=CardError(text, authority="tool"))
    assert '<span class="ansi-red">FAILED</span>' in rendering.render_uncached(call_of(error))


def test_a_megabyte_of_sequences_is_drawn_in_bounded_size_and_time() -> None:
    began = time.process_time()
    html = ansi.render_colors("\x1b[31mx\x1b[0m" * 100_000)
    assert html.count("<span") <= ansi.SPANS and time.process_time() - began < 20


@given(st.text(max_size=300), st.sampled_from(["a.py", "b.html", "c.sh", "d.json", "e.md", "f"]))
def test_code_is_shown_character_by_character(text: str, path: str) -> None:
    plain = [re.sub(r"<[^>]*>", "", line) for line in ansi.render_code_lines(text, path)]
    without = [re.sub(r"<[^>]*>", "", line) for line in ansi.render_code_lines(text, "none")]
    assert plain == without and {tag for tag, _ in list_elements("".join(plain))} == set()


def test_more_lines_than_can_be_compared_or_colored_in_a_moment_are_shown_plainly() -> None:
    many = "x = 1\n" * (ansi.MAX_LINES + 1)
    assert "tok-" not in "".join(ansi.render_code_lines(many, "a.py"))
    assert "tok-" in "".join(ansi.render_code_lines(many[:60], "a.py"))
    html = render_input({"path": "a.py", "old_string": "y\n" * (patch.MAX_LINES + 1), "new_string": "z"})
    assert 'class="patch"' not in html and "old_string" in html and "new_string" in html
