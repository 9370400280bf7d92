"""The window of a zoomed timeline: what a query may say, and what the links lead to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.timeline.zoom import TimeWindow

NOW = 1_795_000_000_000


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 0), (0, NOW), (NOW, 0), (NOW, NOW), (NOW, NOW - 1), (NOW, NOW + 5), (NOW, 10**15), (1, 10**18)],
)
def test_a_query_that_names_no_window_is_the_whole_run(start: int, end: int) -> None:
    assert TimeWindow.read(start, end) is None


@given(st.integers(NOW - 10**9, NOW), st.integers(20, 10**9))
def test_every_link_leads_to_a_window_again(start: int, length: int) -> None:
    window = TimeWindow.read(start, start + length)
    assert window is not None
    for neighbor in window.build_neighbors().values():
        assert TimeWindow.read(neighbor.start, neighbor.end) == neighbor


@given(st.floats(NOW / 1000 - 10**6, NOW / 1000), st.floats(0, 10**6))
def test_the_window_of_a_picture_holds_all_of_it(first: float, length: float) -> None:
    window = TimeWindow.around(first, first + length)
    assert window.first <= first and window.last >= first + length
    assert TimeWindow.read(window.start, window.end) == window


@given(st.integers(0, 10**18))
def test_a_length_that_follows_the_clock_is_bounded(milliseconds: int) -> None:
    length = TimeWindow.read_length(milliseconds)
    assert length in (0, milliseconds)
    if length:
        window = TimeWindow.ending(NOW / 1000, length)
        assert window.length == length and window.end == NOW and window.quarter >= 20
        assert TimeWindow.read_length(window.build_neighbors()["closer"].length)
