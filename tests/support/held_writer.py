"""A writer without a thread, and streams on an event loop that runs on demand: commits happen step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolcards import gate
from toolcards.gate.agents.stream_queue import CommitReport
from toolcards.gate.writer import group_commit
from toolcards.models import Source


class HeldWriter(group_commit.Writer):
    """Keeps what is queued until `write`, which commits all of it on the calling thread."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.reports: list[CommitReport] = []
        self.failures: list[Exception] = []

    def enqueue(self, work: Any) -> None:
        self._queue.append(work)

    def write(self) -> int:
        """Commit the works in the queue and deliver their notifications; return the number of works."""
        works, self._queue = self._queue, []
        for work in works:
            work.mark_dequeued()
        group_commit.commit(works)
        self.loop.run_until_complete(asyncio.sleep(0))
        return len(works)

    def write_all(self) -> int:
        """Commit until the queue is empty; return the number of commits."""
        commits = 0
        while self._queue:
            self.write()
            commits += 1
        return commits

    def open(self, source: Source, run: str = "r", kind: Callable[..., Any] = gate.Stream, **options: Any) -> Any:
        """Return a stream of this class, whose reports and failures are kept here."""

        async def build() -> Any:
            defaults = {"protocol": "native", "on_commit": self.reports.append, "on_failure": self.failures.append}
            return kind(source, run, **(defaults | options))

        return self.loop.run_until_complete(build())

    def wait(self, stream: Any) -> None:
        """Wait until the frames of the stream are committed; raises its failure."""
        self.loop.run_until_complete(asyncio.wait_for(stream.wait_until_committed(), 1))


def hold_writer(monkeypatch: pytest.MonkeyPatch) -> HeldWriter:
    """Put a held writer in the place of the process's writer, for one test."""
    writer = HeldWriter()
    monkeypatch.setattr(group_commit, "WRITER", writer)
    return writer
