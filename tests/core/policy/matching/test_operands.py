"""Values that rules compare with."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcards.core.policy.matching.operands import compile_glob


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "ab", "."]), max_size=8), st.lists(st.sampled_from(["a", "b", "*"]), max_size=6)
)
def test_globs_agree_with_regular_expressions(text, pattern):

    text, pattern = "".join(text), "".join(pattern)
    expected = re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text, re.DOTALL) is not None
    assert compile_glob(pattern)(text) == expected
