"""Lanes of the timeline: every call in one lane, no two of a row at once, sub-agents below their caller."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.timeline.lanes import MAX_DEPTH, MAX_LANES, TimedCall, build_lanes, find_end, find_start
from tests.support.cards import a_card
from toolcards.core.calls.card import CardTool, Milestones, ToolCallState

S = ToolCallState
PATHS = st.sampled_from([(), ("main",), ("main", "a"), ("main", "a", "b"), ("other",)])
NAMES = st.sampled_from(["c0", "c1", "c2", "c3"])


def timed(
    call_id: str, start: float, length: float, path: tuple[str, ...] = (), lane: str = "", parent: str = ""
) -> TimedCall:
    times = Milestones(started=start, available=start, finished=start + length)
    card = a_card(S.OUTPUT_AVAILABLE, times=times, agent_path=path, lane=lane, parent_call=parent)
    call: Any = SimpleNamespace(ordinal=int(start))
    return TimedCall(call, card.replace(call_id=call_id, tool=CardTool("Bash")))


CALLS = st.lists(
    st.builds(timed, NAMES, st.integers(1, 50).map(float), st.integers(0, 9).map(float), PATHS,
              st.sampled_from(["", "x", "y"]), st.one_of(st.just(""), NAMES)), min_size=1, max_size=12)  # fmt: skip


@given(CALLS)
def test_every_call_is_in_one_lane_and_calls_of_a_row_follow_each_other(calls: list[TimedCall]) -> None:
    calls.sort(key=lambda each: find_start(each[1]))
    lanes = build_lanes(calls, "agent", 0.0, 60.0)
    call_ids = [id(each[1]) for lane in lanes for _, each in lane.calls]
    assert sorted(call_ids) == sorted(id(card) for _, card in calls)
    for lane in lanes:
        assert len({(card.agent_path, card.lane) for _, (_, card) in lane.calls}) == 1
        ends: dict[int, float] = {}
        for row, (_, card) in lane.calls:
            assert ends.get(row, 0.0) <= find_start(card)
            ends[row] = find_end(card, 60.0)
    assert len({lane.title for lane in lanes}) == len(lanes) and all(lane.depth <= MAX_DEPTH for lane in lanes)


def test_sub_agents_stand_below_the_lane_that_called_them() -> None:
    calls = [
        timed("task1", 1, 9), timed("task2", 2, 9), timed("late", 8, 1),
        timed("s1", 3, 1, ("explore",), "l1", "task1"), timed("s2", 3, 1, ("explore",), "l2", "task2"),
        timed("d1", 4, 1, ("explore", "deep"), "l3", "s1"),
    ]  # fmt: skip
    lanes = build_lanes(calls, "claude", 0.0, 20.0)
    assert [(lane.name, lane.depth) for lane in lanes] == [
        ("claude", 0), ("explore", 1), ("deep", 2), ("explore 2", 1),
    ]  # fmt: skip


def test_agents_that_claim_each_other_as_callers_are_still_drawn() -> None:
    calls = [timed("a", 1, 1, ("x",), "l1", "b"), timed("b", 2, 1, ("y",), "l2", "a")]
    assert {lane.title for lane in build_lanes(calls, "", 0.0, 9.0)} == {"x", "y"}


def test_agents_beyond_the_limit_share_the_last_lane() -> None:
    calls = [timed(f"c{n}", n % 7 + 1, 1, (f"agent {n}",)) for n in range(400)]
    calls.sort(key=lambda each: find_start(each[1]))
    lanes = build_lanes(calls, "main", 0.0, 20.0)
    assert len(lanes) == MAX_LANES and lanes[-1].is_shared and lanes[-1].title == f"{401 - MAX_LANES} more agents"
    assert sum(len(lane.calls) for lane in lanes) == 400
    ends: dict[int, float] = {}
    for row, (_, card) in lanes[-1].calls:
        assert ends.get(row, 0.0) <= find_start(card)
        ends[row] = find_end(card, 20.0)


def test_six_levels_of_sub_agents_stand_below_each_other() -> None:
    names = [f"a{n}" for n in range(8)]
    calls = [timed(f"c{n}", n + 1, 9, tuple(names[: n + 1])) for n in range(8)]
    assert [lane.depth for lane in build_lanes(calls, "", 0.0, 20.0)] == [0, 1, 2, 3, 4, 5, 6, 6]


def test_a_call_whose_clock_went_backwards_keeps_its_place() -> None:
    (lane,) = build_lanes([timed("back", 9, -5), timed("next", 9, 1)], "", 0.0, 20.0)
    assert [row for row, _ in lane.calls] == [0, 1]
