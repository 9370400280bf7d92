"""Threads of the client: one loop for code without one, also after a fork, and work that does not queue."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.server import PATIENCE, until
from toolcards.client.transport import threads
from toolcards.client.transport.threads import (
    find_running_loop,
    get_background_loop,
    get_pool,
    run_in_loop,
    run_in_thread,
)


async def get_place(value: Any = None) -> tuple[str, Any]:
    await asyncio.sleep(0)
    return threading.current_thread().name, value


def test_code_without_a_loop_shares_one_in_the_background() -> None:
    assert run_in_loop(get_place(7), get_background_loop()) == ("toolcards", 7)
    loops: list[Any] = []
    workers = [threading.Thread(target=lambda: loops.append(get_background_loop())) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(loops) == {get_background_loop()}
    assert sum(each.name == "toolcards" for each in threading.enumerate()) == 1


def test_an_exception_of_the_coroutine_is_raised_here() -> None:
    async def fail() -> None:
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        run_in_loop(fail(), get_background_loop())


def test_a_wait_of_a_loop_for_itself_is_refused_and_the_coroutine_is_closed() -> None:
    async def wait_for_itself() -> None:
        run_in_loop(get_place(), get_background_loop())

    with pytest.raises(RuntimeError, match="would deadlock"):
        run_in_loop(wait_for_itself(), get_background_loop())


async def test_another_loop_may_wait_for_the_background() -> None:
    assert find_running_loop() is asyncio.get_running_loop()
    assert run_in_loop(get_place(), get_background_loop()) == ("toolcards", None)


def test_without_a_loop_none_is_found() -> None:
    assert find_running_loop() is None


def list_functions(thread: int) -> list[str]:
    """Return what the thread runs, the innermost function first."""
    names, frame = list[str](), sys._current_frames().get(thread)
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_a_wait_that_is_interrupted_cancels_the_coroutine() -> None:
    cancelled, main_thread = threading.Event(), threading.get_ident()

    async def wait_for_long() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def interrupt_once_it_waits() -> None:
        until(lambda: list_functions(main_thread)[:3] == ["wait", "result", "run_in_loop"])
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        interrupter = threading.Thread(target=interrupt_once_it_waits)
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            run_in_loop(wait_for_long(), get_background_loop())
        interrupter.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert cancelled.wait(PATIENCE)


def run_in_child(work: Callable[[], object]) -> int:
    """Return the exit code of a forked child that does the work: 0 if it returned something true."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))  # a child that waits for ever ends
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_has_a_loop_and_a_pool_of_its_own_even_if_its_parent_was_in_the_middle() -> None:
    loop, pool = get_background_loop(), get_pool()

    def use_own_threads() -> bool:
        own = get_background_loop()
        is_new = own is not loop and get_pool() is not pool
        return is_new and run_in_loop(get_place(1), own)[1] == 1 and get_pool().submit(lambda: 2).result() == 2

    with threads._lock:  # as another thread of the parent may at that moment
        assert run_in_child(use_own_threads) == 0
    assert get_background_loop() is loop and get_pool() is pool


async def test_blocking_work_of_async_code_runs_next_to_each_other() -> None:
    barrier = threading.Barrier(40)  # passed only if all of them run at once

    def meet(number: int, *, offset: int) -> tuple[int, bool]:
        barrier.wait(PATIENCE)
        return number + offset, threading.current_thread().name.startswith("toolcards")

    results = await asyncio.gather(*(run_in_thread(meet, number, offset=1) for number in range(40)))
    assert results == [(number + 1, True) for number in range(40)]


async def test_an_exception_of_the_work_is_raised_where_it_is_awaited() -> None:
    def fail() -> None:
        raise KeyError("there")

    with pytest.raises(KeyError, match="there"):
        await run_in_thread(fail)
