"""Bars of the timeline: where they stand, where their names fit, and what odd clocks make of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.timeline.bars import (
    LEFT_MARGIN,
    LETTER,
    MAX_NAMES,
    RIGHT_MARGIN,
    WIDTH,
    BarPart,
    TimelineBar,
    TimeScale,
    lay_out,
    place_names,
)
from dashboard.cards.timeline.lanes import TimedCall, build_lanes
from tests.support.cards import a_card, call_of
from toolcards.core.calls.card import Card, CardTool, Milestones, ToolCallState

S = ToolCallState
RIGHT = WIDTH - RIGHT_MARGIN


def a_bar(x: float, width: float, tool: str) -> TimelineBar:
    call: Any = None
    return TimelineBar(call, "", 0, [BarPart("run", x, width)], x + width, "", tool)


def draw(*cards: Card, first: float, last: float) -> list[TimelineBar]:
    timed_calls = [TimedCall(call_of(card), card) for card in cards]
    return lay_out(build_lanes(timed_calls, "bot", first, last), TimeScale(first, last - first), last)[1]


@given(
    st.lists(st.tuples(st.integers(3, 60), st.integers(0, 200), st.text("abc", min_size=1, max_size=30)), max_size=8)
)
def test_a_name_reaches_neither_the_next_bar_nor_the_end_of_the_picture(parts: list[tuple[int, int, str]]) -> None:
    x, bars = 170.0, []
    for width, gap, tool in parts:
        bars.append(a_bar(x, width, tool))
        x += width + gap
    bars = [bar for bar in bars if bar.end <= RIGHT]
    place_names(bars)
    for number, bar in enumerate(bars):
        limit = bars[number + 1].pieces[0].x if number + 1 < len(bars) else WIDTH
        end = bar.name_x + len(bar.name) * LETTER
        assert not bar.name or end <= (bar.end if bar.name_on else limit)
        assert bar.name == bar.tool or bar.name == "" or bar.name.endswith("…")


MOMENTS = st.one_of(st.just(0.0), st.floats(1.7e9 - 4e5, 1.7e9 + 4e5))


@given(MOMENTS, MOMENTS, MOMENTS, MOMENTS, MOMENTS, st.sampled_from(list(S)))
def test_whatever_the_clocks_say_a_bar_is_inside_the_picture(
    started: float, available: float, requested: float, decided: float, finished: float, state: ToolCallState
) -> None:
    times = Milestones(
        started=started or 1.7e9, available=available, requested=requested, decided=decided, finished=finished
    )
    (bar,) = draw(a_card(state, times=times), first=1.7e9 - 5e5, last=1.7e9 + 5e5)
    assert bar.pieces and all(LEFT_MARGIN <= piece.x <= RIGHT and piece.width > 0 for piece in bar.pieces)
    assert bar.end <= RIGHT + 3 and "-" not in bar.description.rsplit(";", 1)[1]


@pytest.mark.parametrize("length", [0.0, -5.0])
def test_a_call_of_no_length_can_be_seen(length: float) -> None:
    times = Milestones(started=10.0, available=10.0, finished=10.0 + length)
    (bar,) = draw(a_card(S.OUTPUT_AVAILABLE, times=times), first=0.0, last=20.0)
    assert bar.end - bar.pieces[0].x >= 3


def test_the_number_of_names_is_bounded_and_the_longest_bars_keep_theirs() -> None:
    cards = [
        a_card(S.OUTPUT_AVAILABLE, tool=CardTool("Read"), agent_path=(f"a{n % 50}",)).replace(
            times=Milestones(started=1.0, available=1.0, finished=2.0 + n / 100), call_id=f"c{n}"
        )
        for n in range(400)
    ]
    bars = draw(*cards, first=0.0, last=20.0)
    named_ends = [bar.end for bar in bars if bar.name]
    assert len(named_ends) == MAX_NAMES
    assert min(named_ends) >= max(bar.end for bar in bars if not bar.name) - 0.1


def test_bars_of_a_lane_that_agents_share_say_whose_they_are() -> None:
    cards = [
        a_card(S.OUTPUT_AVAILABLE, agent_path=("main", f"a{n}"), times=Milestones(started=1.0, finished=2.0))
        for n in range(70)
    ]
    labels = [bar.description for bar in draw(*cards, first=0.0, last=3.0)]
    assert sum(label.startswith("main › a") for label in labels) == 11
