"""Whether a process is used, and how long its periodic jobs sleep."""

import asyncio

import pytest

from tests.support.server import PATIENCE
from toolcards.transports.background import activity


@pytest.fixture
def unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every moment without a request count as unused."""
    monkeypatch.setattr(activity, "UNUSED_AFTER", -1.0)


def test_a_process_is_used_during_a_request_and_some_time_after_it():
    with activity.use():
        assert not activity.is_unused()
    assert not activity.is_unused()


def test_a_process_is_unused_some_time_after_the_last_request_ended(unused):
    with activity.use(), activity.use():
        pass
    assert activity.is_unused()
    with activity.use():
        with activity.use():
            pass
        assert not activity.is_unused(), "another request is open"


async def test_a_job_that_sleeps_in_an_unused_process_wakes_when_someone_comes(unused):
    sleeping = asyncio.create_task(activity.sleep(0.0, 10 * PATIENCE))
    await asyncio.sleep(0)
    assert not sleeping.done()
    with activity.use():
        async with asyncio.timeout(PATIENCE):
            await sleeping


async def test_a_used_process_and_one_that_is_unused_for_long_sleep_for_their_times(unused):
    async with asyncio.timeout(PATIENCE):
        await activity.sleep(10 * PATIENCE, 0.0)
        with activity.use():
            await activity.sleep(0.0, 10 * PATIENCE)


async def test_a_sleep_that_is_canceled_leaves_nothing(unused):
    sleeping = asyncio.create_task(activity.sleep(0.0, 10 * PATIENCE))
    await asyncio.sleep(0)
    sleeping.cancel()
    await asyncio.wait({sleeping})
    activity.record_use()
    assert sleeping.cancelled()
