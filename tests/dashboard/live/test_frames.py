"""How often browsers are sent something: at once after a rest, then at an even pace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashboard.live.frames import FramePacing


def test_a_few_events_after_a_rest_wait_for_nothing_and_later_ones_are_spaced() -> None:
    throttle = FramePacing(0.1, 3)
    assert [round(throttle.record(7.0), 3) for _ in range(4)] == [0, 0, 0.1, 0.2]
    assert throttle.record(9.0) == 0


@given(st.lists(st.floats(0, 2), max_size=40))
def test_events_that_wait_as_they_are_told_never_exceed_the_pace(gaps: list[float]) -> None:
    throttle, now, times = FramePacing(0.1, 3), 0.0, []
    for gap in gaps:
        now += gap
        times.append(now)
        now += throttle.record(now)
    for first in range(len(times)):
        for last in range(first, len(times)):
            assert last - first + 1 <= (times[last] - times[first]) / 0.1 + 3 + 1e-6
