"""Cancels a task at a chosen wait, when its answer is there and before the task runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class CancelledOnAnswer:
    """Runs a coroutine, and cancels its task when its n-th wait is over, before it runs on."""

    def __init__(self, work: Coroutine[Any, Any, Any], wait: int) -> None:
        self._work, self._remaining = work, wait

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        result, error = None, None
        while True:
            try:
                future = self._work.send(result) if error is None else self._work.throw(error)
            except StopIteration as end:
                return end.value
            self._remaining -= 1
            if self._remaining == 0:
                future.add_done_callback(lambda answer: task.cancel())  # in front of the task's own callback
            try:
                result, error = (yield future), None
            except BaseException as raised:
                error = raised
