"""Heads that a proxy passes on, and those that it leaves out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.client.common.http_heads import choose_heads, is_clean, read_media_type

NAMES = st.sampled_from(["X-A", "x-b", "Accept", "Content-Type", "content-md5", "TE", "HTTP2-Settings", "Connection"])


@draw(40)
@given(st.lists(st.tuples(NAMES, st.sampled_from(["x-a", "1, X-B", "accept"])), max_size=8))
def test_what_passes_is_named_by_no_connection_and_describes_no_body(heads: list[tuple[str, str]]) -> None:
    options = {each.strip().lower() for name, value in heads if name == "Connection" for each in value.split(",")}
    expected_heads = [head for head in heads if head[0] in {"X-A", "x-b", "Accept"} and head[0].lower() not in options]
    assert choose_heads(heads) == expected_heads


@loop_over(("name", "value", "expected"), [
    ("X-A", "1", True), ("X_A", "1", True), ("X A", "1", False), ("X-A ", "1", False), ("X-A", "1\r\n 2", False),
    ("X-A", "\0", False), ("X-A", "a\tb", True), ("X-\u00e9", "1", False), ("", "1", False),
])  # fmt: skip
def test_a_head_that_programs_read_differently_is_not_clean(name: str, value: str, expected: bool) -> None:
    assert is_clean(name, value) is expected


@loop_over(("value", "expected"), [
    ("", ""), ("Application/JSON", "application/json"), (" a/b ; c=d", "a/b"), ("a/b,c/d", "a/b,c/d"),
])  # fmt: skip
def test_a_media_type_has_no_parameters(value: str, expected: str) -> None:
    assert read_media_type(value) == expected
