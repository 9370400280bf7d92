"""A round begins with a ring of any run, or after the pause, and one that fails does not end the loop."""

from __future__ import annotations

import asyncio

import pytest
from django.db import OperationalError

from tests.support.server import PATIENCE
from toolcards import doorbell, outages
from toolcards.transports.background.rounds import run_rounds


class FakeTurns:
    """Turns that raise these errors in their first rounds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.begin_count, self.is_closed = 0, False

    def begin(self) -> None:
        self.begin_count += 1
        if self.errors:
            raise self.errors.pop(0)

    def close(self) -> None:
        self.is_closed = True


async def wait_for_rounds(turns: FakeTurns, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while turns.begin_count < count:
            await asyncio.sleep(0.01)


async def test_a_ring_begins_a_round_before_the_pause_is_over() -> None:
    turns = FakeTurns()
    task = asyncio.create_task(run_rounds([turns], lambda: 10 * PATIENCE))
    for count in (1, 2):
        while turns.begin_count < count:
            doorbell.ring([7])
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert turns.is_closed


@pytest.mark.parametrize("error", [OperationalError("the connection is closed"), ValueError("odd")])
async def test_a_round_that_fails_is_followed_by_others(error: Exception) -> None:
    turns, others = FakeTurns(error), FakeTurns()
    task = asyncio.create_task(run_rounds([turns, others], lambda: 0.01))
    await wait_for_rounds(turns, 3)
    outages.report_success(outages.SENDING)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert turns.is_closed and others.is_closed and turns.errors == [] and others.begin_count >= 2
