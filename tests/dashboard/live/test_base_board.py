"""Cards that only grow take turns; new cards and states never wait, and what is shown last is the latest."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.live import base_board
from dashboard.live.base_board import GROWING, MOST_REPEATS, PENDING_SECONDS, BoardNews, LiveBoard, RepeatedCards
from toolcards.core.calls.card import ToolCallState
from toolcards.models import ToolCall

CHANGES = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(sorted(ToolCallState))), max_size=12)


def call(pk: int, state: str = "input-available", seq: int = 0) -> ToolCall:
    return ToolCall(pk=pk, state=state, seq=seq)


@given(ticks=st.lists(CHANGES, max_size=20))
def test_what_is_rendered_is_what_a_board_without_turns_would_show_in_the_end(
    ticks: list[list[tuple[int, str]]],
) -> None:
    repeated = RepeatedCards()
    latest: dict[int, tuple[str, int]] = {}
    versions: dict[int, tuple[str, int]] = {}
    for number, changes in enumerate(ticks, 1):
        calls = [call(pk, state, number) for pk, state in changes]
        latest |= {each.pk: (each.state, each.seq) for each in calls}
        chosen_calls = repeated.select(calls)
        growing = [
            each for each in chosen_calls if each.state in GROWING and versions.get(each.pk, ("",))[0] == each.state
        ]
        assert len(growing) <= MOST_REPEATS or not calls
        versions |= {each.pk: (each.state, each.seq) for each in chosen_calls}
        assert {pk: state for pk, (state, _) in versions.items()} == {pk: state for pk, (state, _) in latest.items()}
    versions |= {each.pk: (each.state, each.seq) for each in repeated.select([])}
    assert versions == latest and not repeated


def test_calls_that_grow_take_turns_and_a_new_one_does_not_wait() -> None:
    repeated = RepeatedCards()
    calls = [call(pk) for pk in range(1, 13)]
    assert repeated.select(calls) == calls
    turns = [{each.pk for each in repeated.select(calls)} for _ in range(3)]
    assert [len(turn) for turn in turns] == [MOST_REPEATS] * 3 and set().union(*turns) == {each.pk for each in calls}
    ended_call, new = call(3, "output-available"), call(99)
    assert {3, 99} <= {each.pk for each in repeated.select([*calls[:2], ended_call, new])}
    assert repeated and repeated.select([]) and not repeated


class EmptyBoard(LiveBoard):
    """A board without parts."""


def test_a_board_names_when_its_parts_are_due_without_news(monkeypatch: pytest.MonkeyPatch) -> None:
    board, news = EmptyBoard(), BoardNews(runs=frozenset({1}))
    assert board.pending_seconds == math.inf
    board.render_changes(news)  # the first throttled parts are rendered at once
    assert board.pending_seconds == math.inf
    monkeypatch.setattr(base_board, "THROTTLE_SECONDS", 3_600.0)
    board.render_changes(news)
    assert PENDING_SECONDS < board.pending_seconds <= 3_600
    calls = [call(pk) for pk in range(1, 13)]
    for each in calls:
        each.run_id = 1
    for _ in range(2):
        board.render_changes(BoardNews(calls=calls))
    assert board.pending_seconds == PENDING_SECONDS
