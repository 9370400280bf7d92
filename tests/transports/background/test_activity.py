"""Whether a process is used, and how long its periodic jobs sleep."""

import asyncio
import gc
import platform
from pathlib import Path

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


def read_memory() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to")
def test_free_memory_below_memory_in_use_returns_to_the_system() -> None:
    texts = [b"%d" % number * 10_000 for number in range(4_000)]  # below the size that glibc maps apart
    last = bytes(20_000)
    before = read_memory()
    texts.clear()
    activity.return_free_memory()
    assert before - read_memory() > 100 << 20 and len(last) == 20_000


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "_find_trim", lambda: None)
    activity.return_free_memory()


@pytest.mark.django_db
def test_an_unused_process_collects_garbage_once_after_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "UNUSED_AFTER", -1.0)
    collections: list[str] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            collections.append(phase)

    def release_twice() -> None:
        collections.clear()
        activity.release_memory()
        activity.release_memory()

    gc.callbacks.append(count)
    try:
        for _ in range(2):
            with activity.use():
                pass
            release_twice()
            assert len(collections) == 1
        release_twice()
        assert not collections
    finally:
        gc.callbacks.remove(count)
