"""Edits as differences: every character of both sides, and all other fields of the input."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.cards.payloads import patch
from tests.support.payloads import S, render_input, render_output


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
