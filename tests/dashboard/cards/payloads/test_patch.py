"""Edits as differences: every character of both sides, and all other fields of the input."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards import rendering
from dashboard.cards.payloads import patch
from dashboard.cards.payloads.patch import diff_lines
from tests.support.cards import a_card, call_of
from tests.support.payloads import S, render_input, render_output
from toolcards.core.calls.card import CardApproval


def test_an_edit_is_a_patch_with_every_character_of_both_sides() -> None:
    html = render_input({"file_path": "a.py", "old_string": "x = 1\ny = 2\n", "new_string": "x = 1\ny = 3\n"})
    assert "<del>" in html and "<ins>" in html and "a.py" in html and "+1 −1" in html
    assert '<span class="tok-number">3</span>' in html


def test_several_edits_and_a_whole_file_are_patches() -> None:
    html = render_input({"path": "a.js", "edits": [{"oldText": "a", "newText": "b"}, {"oldText": "c", "newText": "d"}]})
    assert html.count('class="patch"') == 2
    assert render_input({"path": "a.js", "content": "let a = 1"}).count("<ins>") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a", "edits": [{"oldText": "a", "newText": "b", "hidden": "rm -rf /"}]},
        {"path": "a", "old_string": 1, "new_string": "b"},
        {"old_string": "a", "new_string": "b"},
    ],
)
def test_an_input_of_another_shape_shows_all_its_fields(arguments: dict[str, Any]) -> None:
    html = render_input(arguments)
    assert 'class="patch"' not in html
    for name in arguments:
        assert name in html


def test_a_waiting_edit_shows_its_other_fields_with_the_patch() -> None:
    arguments = {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True, "sudo": "yes"}
    html = render_input(arguments, S.APPROVAL_REQUESTED)
    visible_html = html.split('class="raw"')[0]
    assert "replace_all" in visible_html and "sudo" in visible_html and "<del>" in visible_html


def test_a_unified_diff_is_a_patch() -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new <b>\n"
    html = render_output(text, "execute")
    assert "<del>− old</del>" in html and "<ins>+ new &lt;b&gt;</ins>" in html and patch.is_unified_diff(text)


def test_the_differences_of_a_permission_request_are_patches_with_all_else_that_it_shows() -> None:
    diff = {"type": "diff", "path": "a.py", "oldText": "a = 1", "newText": "a = 2"}
    other = {"type": "content", "content": {"type": "text", "text": "and more"}}
    arguments = {"title": "Edit", "content": [diff, other, diff | {"hidden": "rm"}], "locations": [{"path": "/p/a.py"}]}
    html = render_input(arguments, S.APPROVAL_REQUESTED)
    visible_html = html.split('class="raw"')[0]
    assert html.count('class="patch"') == 1 and "<del>" in visible_html and "a.py" in visible_html
    for text in ("Edit", "and more", "hidden", "locations"):
        assert text in visible_html
    assert render_input({"content": [diff | {"oldText": None}]}).count('class="patch"') == 1


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
