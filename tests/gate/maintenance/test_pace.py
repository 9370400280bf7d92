"""Background work rests as long as it has worked, but never longer than a second."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from toolcards.gate.maintenance import pace


@pytest.mark.parametrize(("seconds", "rest"), [(0.0, 0.0), (0.25, 0.25), (1.0, 1.0), (30.0, pace.LONGEST_PAUSE)])
def test_a_pause_is_as_long_as_the_work_before_it(seconds: float, rest: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now, rests = [100.0], []

    def sleep(duration: float) -> None:
        rests.append(duration)
        now[0] += duration

    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    work = pace.Pace()
    for _ in range(3):  # what it rested is no work
        now[0] += seconds
        work.pause()
    assert rests == [rest] * 3
