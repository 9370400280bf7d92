"""Ropes: a text in pieces is the same text, and never changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolcards.core.text.text_rope import Rope


@given(st.lists(st.text(max_size=5)), st.integers(0, 30))
def test_a_rope_is_its_pieces(pieces: list[str], size: int) -> None:
    rope = Rope()
    for piece in pieces:
        rope = rope.plus(piece)
    whole = "".join(pieces)
    assert (str(rope), len(rope), rope) == (whole, len(whole), Rope(whole))
    assert rope.head(size) == whole[:size]
    assert whole.endswith(rope.tail(size))
    assert len(rope.tail(size)) >= min(size, len(whole))
    one_piece = rope.join()
    assert (one_piece, one_piece.join() is one_piece) == (rope, True)
    assert (str(one_piece.plus("more")), str(rope)) == (whole + "more", whole)


def test_a_rope_handed_out_never_changes() -> None:
    old = Rope("a")
    left_rope, right_rope = old.plus("b"), old.plus("c")
    assert [str(old), str(left_rope), str(right_rope), str(left_rope.plus("d"))] == ["a", "ab", "ac", "abd"]
