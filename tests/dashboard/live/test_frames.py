"""What goes over a browser's socket: the latest state of each part, at an even pace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.rendering import MAX_PARTS
from dashboard.live.frames import Frame, FrameSlot, Pacing, join_frames


def test_a_few_events_after_a_rest_wait_for_nothing_and_later_ones_are_spaced() -> None:
    pacing = Pacing(0.2)
    assert [round(pacing.record(7.0, 0.1), 3) for _ in range(4)] == [0, 0, 0.1, 0.2]
    assert pacing.record(9.0, 0.1) == 0


@given(st.lists(st.floats(0, 2), max_size=40))
def test_events_that_rest_as_asked_never_exceed_the_pace(gaps: list[float]) -> None:
    pacing, now, times = Pacing(0.2), 0.0, []
    for gap in gaps:
        now += gap
        times.append(now)
        now += pacing.record(now, 0.1)
    for first in range(len(times)):
        for last in range(first, len(times)):
            assert last - first + 1 <= (times[last] - times[first]) / 0.1 + 3 + 1e-6


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.001, 0.4)), max_size=40))
def test_work_that_rests_as_asked_never_exceeds_its_share_by_more_than_the_allowance(
    work: list[tuple[float, float]],
) -> None:
    share, allowance, pacing, now = 0.3, 0.5, Pacing(0.5), 0.0
    started: list[tuple[float, float]] = []
    for gap, cost in work:
        now += gap
        started.append((now, cost))
        now = max(now + cost, now + pacing.record(now, cost / share))
    for first in range(len(started)):
        spent = 0.0
        for begin, cost in started[first:]:
            assert spent / share <= begin - started[first][0] + allowance + 1e-6
            spent += cost


async def test_the_latest_state_wins_for_who_is_slow() -> None:
    slot = FrameSlot()
    for text in ("one", "two", "three"):
        slot.offer(Frame({"card": text}))
    slot.offer(Frame({"other": "!"}))
    frame = await slot.take()
    assert frame is not None and frame.text == "three!"


def test_pieces_follow_the_card_that_they_belong_to_and_are_dropped_when_a_newer_card_comes() -> None:
    frame = Frame({"3": "card"}).merge(Frame({"3+7": "a", "31": "other"})).merge(Frame({"3+9": "b"}))
    assert frame.text == "cardaotherb"
    assert frame.merge(Frame({"3": "newer"})).text == "othernewer"
    assert Frame({"3+7": "a"}).merge(Frame({"3": "card"})).merge(Frame({"3+9": "b"})).text == "cardb"


async def test_the_same_frame_goes_to_every_page_that_is_up_to_date() -> None:
    frame, slots = Frame({"card": "x"}), [FrameSlot(), FrameSlot()]
    for slot in slots:
        slot.offer(frame)
    assert [await slot.take() for slot in slots] == [frame, frame]


async def test_a_watcher_far_behind_gets_the_whole_board() -> None:
    slot = FrameSlot()
    for number in range(MAX_PARTS + 10):
        slot.offer(Frame({str(number): "x"}))
        if slot.overflowed:
            break
    assert slot.overflowed and number <= MAX_PARTS


def test_boards_join_into_one_frame() -> None:
    assert join_frames([Frame({"a": "1"}), Frame({"b": "2"})]).text == "12"


async def test_a_browser_that_takes_its_frames_waits_only_for_the_tick() -> None:
    slot = FrameSlot()
    for number in range(100):
        slot.offer(Frame({"card": str(number)}))
        taking = slot.take()
        with pytest.raises(StopIteration) as end:
            taking.send(None)  # returns at once: nothing to wait for
        assert end.value.value.text == str(number)
