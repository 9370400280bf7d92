"""Changes of inputs: every line is there, or the change says what is missing."""

from __future__ import annotations

import time
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards import rendering
from dashboard.cards.payloads.input_changes import diff_lines
from tests.support.cards import a_card, call_of
from tests.support.payloads import S
from toolcards.core.calls.card import CardApproval

LINES = st.lists(st.sampled_from(["a", "b", "", "c\u2028d", "x\ry"]), max_size=12).map("\n".join)


@given(LINES, LINES)
def test_a_change_has_every_line_that_it_removes_and_adds(before: str, after: str) -> None:
    lines = diff_lines(before, after)
    old, new = before.split("\n"), after.split("\n")
    removed, added = Counter(old) - Counter(new), Counter(new) - Counter(old)
    assert removed <= Counter(line for sign, line in lines if sign == "-")
    assert added <= Counter(line for sign, line in lines if sign == "+")
    for signs, whole in (("- ", before), ("+ ", after)):
        assert "\n".join(line for sign, line in lines if sign in signs) in whole


def test_a_change_at_the_end_of_a_long_text_is_shown_with_its_surroundings() -> None:
    text = "\n".join(f"line {number}" for number in range(2_000))
    assert diff_lines(text, f"{text}!") == [
        (" ", "line 1996"), (" ", "line 1997"), (" ", "line 1998"), ("-", "line 1999"), ("+", "line 1999!"),
    ]  # fmt: skip


def test_a_change_that_does_not_fit_says_so_also_on_the_button() -> None:
    before, after = [f"line {number}" for number in range(600)], [f"lime {number * 7}" for number in range(600)]
    began = time.process_time()
    assert diff_lines(before, after)[-1] == ("…", "The rest of the change is not shown")
    assert diff_lines("x" * 60_000, "y" * 60_000)[-1][0] == "…"
    proposal = CardApproval(id="apr_1", votable=True, args_sha256="ab" * 32, edited=after, has_edited=True)
    html = rendering.render_uncached(call_of(a_card(S.APPROVAL_REQUESTED, input=before, approval=proposal)))
    assert "(part of the change not shown)" in html
    assert time.process_time() - began < 20  # comparing each line with each other takes minutes
