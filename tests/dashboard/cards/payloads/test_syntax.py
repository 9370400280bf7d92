"""Syntax colors: code stays as it is, character by character, and long code stays plain."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.payloads import patch, syntax
from tests.support.payloads import list_elements, render_input


@given(st.text(max_size=300), st.sampled_from(["a.py", "b.html", "c.sh", "d.json", "e.md", "f"]))
def test_code_is_shown_character_by_character(text: str, path: str) -> None:
    plain = [re.sub(r"<[^>]*>", "", line) for line in syntax.render_code_lines(text, path)]
    without = [re.sub(r"<[^>]*>", "", line) for line in syntax.render_code_lines(text, "none")]
    assert plain == without and {tag for tag, _ in list_elements("".join(plain))} == set()


def test_more_lines_than_can_be_compared_or_colored_in_a_moment_are_shown_plainly() -> None:
    many = "x = 1\n" * (syntax.MAX_LINES + 1)
    assert "tok-" not in "".join(syntax.render_code_lines(many, "a.py"))
    assert "tok-" in "".join(syntax.render_code_lines(many[:60], "a.py"))
    html = render_input({"path": "a.py", "old_string": "y\n" * (patch.MAX_LINES + 1), "new_string": "z"})
    assert 'class="patch"' not in html and "old_string" in html and "new_string" in html
