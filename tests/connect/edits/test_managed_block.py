"""Blocks in people's text files: each is found, replaced and removed, and what people wrote stays as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.connect.base import TAG
from toolcards.connect.edits.managed_block import append_block, format_block, has_any_block, read_block, remove_block

OWN_TEXTS = st.lists(st.sampled_from(["A=1", "# a note", "", "  ", "\r", "B='x'"]), max_size=5).map("\n".join)


@draw(200)
@given(OWN_TEXTS, st.sampled_from(["", "\n"]), st.sampled_from(["K=1", "K=1\nL=2", ""]), st.sampled_from(["#", "//"]))
def test_a_block_that_is_appended_and_removed_leaves_the_text_as_it_was(
    own: str, end: str, lines: str, comment: str
) -> None:
    own += end
    text = append_block(own, lines, "python", comment)
    assert read_block(text, "python", comment).splitlines() == lines.splitlines() and has_any_block(text)
    assert append_block(text, lines, "python", comment) == text
    assert remove_block(text, "python", comment) == own


@draw(200)
@given(OWN_TEXTS, OWN_TEXTS)
def test_no_line_is_joined_with_what_was_added_after_the_block(above: str, below: str) -> None:
    text = append_block(above, "K=1", "python") + below
    remaining = remove_block(text, "python")
    assert remaining.splitlines() == above.splitlines() + below.splitlines()


@draw(200)
@given(OWN_TEXTS)
def test_of_two_blocks_each_is_removed_alone(own: str) -> None:
    text = append_block(append_block(own, "K=1", "python"), "L=2", "curl")
    without_python = remove_block(text, "python")
    assert read_block(without_python, "curl") == "L=2\n" and read_block(without_python, "python") == ""
    assert remove_block(without_python, "curl").rstrip("\n") == own.rstrip("\n")
    assert remove_block(remove_block(text, "curl"), "python").rstrip("\n") == own.rstrip("\n")


def test_a_block_is_replaced_at_the_end_with_its_new_lines() -> None:
    text = append_block("A=1\n", "K=1", "python") + "B=2\n"
    renewed = append_block(text, "K=2", "python")
    assert renewed.startswith("A=1\nB=2\n") and renewed.count(TAG) == 2 and read_block(renewed, "python") == "K=2\n"


@loop_over(
    "text",
    [
        "", "A=1\n", f"# >>> {TAG} python\nK=1\n", f"# <<< {TAG} python\n",
        f"# >>> {TAG} python-3\nK=1\n# <<< {TAG} python-3\n",
        f"// >>> {TAG} python\nK=1\n// <<< {TAG} python\n", f"x # >>> {TAG} python\nK=1\n# <<< {TAG} python\n",
    ],
)  # fmt: skip
def test_what_is_no_block_of_the_name_is_neither_read_nor_removed(text: str) -> None:
    assert read_block(text, "python") == "" and remove_block(text, "python") == text


def test_a_block_with_the_line_ends_of_windows_is_found() -> None:
    text = ("A=1\n" + format_block("K=1", "python") + "B=2\n").replace("\n", "\r\n")
    assert read_block(text, "python").strip() == "K=1"
    assert remove_block(text, "python").replace("\r\n", "\n") == "A=1\nB=2\n"


def test_a_block_ends_at_its_own_last_mark() -> None:
    first, second = format_block("K=1", "python"), format_block("L=2", "curl")
    assert read_block(first + second, "python") == "K=1\n" and remove_block(first + second, "python") == second
    assert not has_any_block("A=1\n") and not has_any_block(f"# {TAG} python\n")


def test_an_indented_block_has_all_of_its_lines_indented_and_is_found() -> None:
    block = format_block("a,\nb", "acp", "//", indent="    ")
    assert all(line.startswith("    ") for line in block.splitlines())
    assert remove_block("{\n" + block + "}\n", "acp", "//") == "{\n}\n"
