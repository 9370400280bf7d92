"""The count of skipped frames: bounded, and equal to the sum of its kinds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcards.core.runs.skipped_frames import MAX_KIND_LENGTH, MAX_KINDS, SkippedFrames, load

KINDS = st.lists(st.one_of(st.text(max_size=200), st.integers(0, 90).map(str)), max_size=150)


def count_frames(kinds: list[str]) -> SkippedFrames:
    frames = SkippedFrames()
    for kind in kinds:
        frames.count(kind)
    return frames


@pytest.mark.slow
@given(KINDS, KINDS)
def test_counts_are_bounded_and_add_up(first: list[str], second: list[str]) -> None:
    frames, more = count_frames(first), count_frames(second)
    frames.add(more)
    assert frames.total == len(first) + len(second) == sum(frames.kinds.values()) + frames.other
    assert len(frames.kinds) <= MAX_KINDS and all(0 < len(kind) <= MAX_KIND_LENGTH for kind in frames.kinds)
    assert frames.other >= 0
    assert load(frames.total, frames.dump_kinds()) == frames


def test_the_kinds_beyond_the_limit_are_one_number() -> None:
    frames = count_frames([f"kind-{n}" for n in range(60)] + ["kind-0", "kind-59"])
    assert (len(frames.kinds), frames.kinds["kind-0"], frames.other) == (50, 2, 11)


def test_kinds_without_a_name_and_with_a_long_one_are_kept() -> None:
    assert count_frames(["", "x" * 81, "x" * 90, "y" * 80]).kinds == {"(empty)": 1, "x" * 79 + "…": 2, "y" * 80: 1}


def test_the_most_frequent_kinds_come_first() -> None:
    assert count_frames(["b", "a", "c", "c"]).by_number() == [("c", 2), ("a", 1), ("b", 1)]
