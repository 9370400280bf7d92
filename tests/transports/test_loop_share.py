"""Long work on the event loop lets others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from toolcards.transports import loop_share
from toolcards.transports.loop_share import Slices


async def test_another_task_runs_between_the_slices_of_a_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_share, "SLICE", 0.0)
    turns: list[int] = []
    position = 0

    def count() -> Iterator[int]:
        nonlocal position
        for position in range(200):  # noqa: UP028 - the watcher reads it
            yield position

    async def watch() -> None:
        while True:
            turns.append(position)
            await asyncio.sleep(0)

    watcher = asyncio.ensure_future(watch())
    assert await Slices().collect(count()) == list(range(200))
    watcher.cancel()
    assert len(set(turns)) > 100


async def test_works_rest_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    resting = most = 0
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        nonlocal resting, most
        resting += 1
        most = max(most, resting)
        await sleep(seconds)
        resting -= 1

    monkeypatch.setattr(asyncio, "sleep", pause)
    await asyncio.gather(*[Slices().pause() for _ in range(10)])
    assert most == 1


async def test_a_short_work_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_share, "SLICE", 60.0)
    monkeypatch.setattr(Slices, "pause", None)
    assert await Slices().collect("abc") == ["a", "b", "c"]
