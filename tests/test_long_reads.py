"""Long reads take turns on a thread of their own."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from toolcards import long_reads
from toolcards.long_reads import Turns


async def test_works_run_one_after_the_other_in_their_thread() -> None:
    line, running, names = Turns("line"), 0, []

    def work() -> int:
        nonlocal running
        running += 1
        names.append(threading.current_thread().name)
        assert running == 1
        time.sleep(0.01)
        running -= 1
        return len(names)

    assert await asyncio.gather(*[line.run(work) for _ in range(5)]) == [1, 2, 3, 4, 5]
    assert set(names) == {"line_0"}


async def test_a_turn_rests_for_the_time_that_the_one_before_took(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Turns("line")
    rests: list[float] = []
    cpu = iter([0.0, 0.25, 1.0, 1.0])
    monkeypatch.setattr(long_reads, "time", _Time(lambda: next(cpu), rests.append))
    await line.run(lambda: None)
    await line.run(lambda: None)
    assert rests == [0.0, 0.25]


async def test_a_failed_work_raises_its_error_and_the_next_one_runs() -> None:
    line = Turns("line")

    def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await line.run(fail)
    assert await line.run(lambda: "next") == "next"


class _Time:
    """A clock that stands still, next to a CPU clock of its own."""

    def __init__(self, thread_time: object, sleep: object) -> None:
        self.thread_time, self.sleep = thread_time, sleep

    def monotonic(self) -> float:
        return 100.0
