"""Names that look alike have one skeleton."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from toolcards.client.common.lookalikes import make_skeleton

parts = st.text(st.sampled_from("bB\u0430ash_-.* \u200b1lI|0oO\ufdfa\u00e6\u03a3"), max_size=6)


@draw(500)
@given(parts, parts)
def test_what_a_name_begins_with_looks_like_the_beginning_of_what_it_looks_like(one, other):
    assert make_skeleton(one + other) == make_skeleton(one) + make_skeleton(other) and make_skeleton(
        make_skeleton(one)
    ) == make_skeleton(one)
