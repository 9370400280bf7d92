"""Following: look, then wait for the bell, then look again. Reads only, and never holds a thread.

A lost ring costs one heartbeat; a slow follower sees the latest state instead of every state.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings

from toolcards.adapters import ADAPTERS
from toolcards.clocks import clock
from toolcards.database import PATIENCE, excuse, keep_reading
from toolcards.doorbell import EVERY_RUN, answers_of, listening
from toolcards.models import Approval, Event, ToolCall

HEARTBEAT = 2.0  # seconds after which a follower looks without a ring
PAGE = 500


async def events(run: int, after: int = 0) -> AsyncIterator[list[Event]]:
    """Yield the run's events after that position, in order, in batches, for ever; an empty batch is a heartbeat."""
    async with listening(run) as bell:
        while True:
            try:
                batch = await _read_events(run, after, PAGE)
            except Exception as error:
                if not excuse(error):
                    raise
                batch = []  # the heartbeat comes, and the next look
            if batch:
                after = batch[-1].seq
                yield batch
            if len(batch) < PAGE:
                await bell.wait(HEARTBEAT)
                if not batch:
                    yield []


async def batch(run: int, after: int, most: int) -> list[Event]:
    """Return at most so many of the run's events after that position, in order."""
    return await keep_reading(lambda: _read_events(run, after, most))


async def _read_events(run: int, after: int, most: int) -> list[Event]:
    return [event async for event in Event.objects.after(run, after)[:most]]


async def changes(run: int, after: int = 0) -> list[ToolCall]:
    """Return the run's calls that changed after that position, oldest first."""
    calls = ToolCall.objects.filter(run=run, seq__gt=after).order_by("ordinal")
    return [call async for call in calls]


async def owed(run: int, channel: str = "socket") -> list[str]:
    """Return the ids of the answers that the run's agent is owed over such a socket and may have by now."""
    rows = Approval.objects.owed(run, channel=channel).values_list("id", "state", "decided_at", "opener")
    found = [(pk, opener) async for pk, state, at, opener in rows if not _is_held_back(state, at)]
    if any(opener == "agent" for _, opener in found) and await _asks_in_batches(run):
        found = [(pk, opener) for pk, opener in found if opener == "gate"]
    return [pk for pk, _ in found]


async def _asks_in_batches(run: int) -> bool:
    """Whether the agent must get all its answers at once (AG-UI) and some of them are still missing."""
    asked = Approval.objects.filter(run=run, opener="agent", state="pending").select_related("run")
    pending = await asked.afirst()
    return pending is not None and ADAPTERS[pending.run.protocol].encode_all is not None


async def replies(run: int, channel: str = "socket") -> AsyncIterator[str]:
    """Yield the id of each answer the run's agent is owed on that channel, as soon as it may be told, for ever."""
    with _looking(run, channel) as look:
        async with listening(answers_of(run)) as bell:
            while True:
                for approval in await keep_reading(lambda: owed(run, channel), math.inf):
                    yield approval
                while not await bell.wait(_pause()) and run not in await look.owing(_pause() / 2):
                    pass


def _pause() -> float:
    """Seconds after which an answer is looked for without a ring: one that is held back may be told by then."""
    return min(HEARTBEAT, max(0.2, settings.TOOLCARDS.handover_seconds or HEARTBEAT))


class _Look:
    """Which of the runs that sockets of an event loop follow are owed an answer: one query for all of them."""

    def __init__(self, channel: str) -> None:
        self.runs: Counter[int] = Counter()
        self._channel, self._at = channel, 0.0
        self._task: asyncio.Task[set[int]] | None = None

    async def owing(self, age: float) -> set[int]:
        """Return those that are owed one, as it was at most `age` seconds ago."""
        if self._task is None or time.monotonic() - self._at > age:
            self._at, self._task = time.monotonic(), asyncio.create_task(self._find())
        return await asyncio.shield(self._task)  # who stops waiting does not stop it for the others

    async def _find(self) -> set[int]:
        rows = Approval.objects.owed(*self.runs, channel=self._channel).values_list("run_id", flat=True)
        try:
            return {run async for run in rows}
        except Exception as error:
            if not excuse(error):
                raise
            return set(self.runs)  # each looks for itself, until the database is back


_looks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Look]] = WeakKeyDictionary()


@contextmanager
def _looking(run: int, channel: str) -> Iterator[_Look]:
    looks = _looks.setdefault(asyncio.get_running_loop(), {})
    look = looks.setdefault(channel, _Look(channel))
    look.runs[run] += 1
    try:
        yield look
    finally:
        look.runs[run] -= 1
        if not look.runs[run]:
            del look.runs[run]


async def answered(approval: str, seconds: float) -> Any:
    """Wait up to that long for the approval to be answered and its permit handed over; return the row."""
    until = time.monotonic() + seconds
    row = await keep_reading(lambda: _row(approval))
    async with listening(answers_of(row.run_id)) as bell:
        while not _ready(row) and (left := until - time.monotonic()) > 0:
            await bell.wait(min(left, HEARTBEAT, max(0.05, settings.TOOLCARDS.handover_seconds or HEARTBEAT)))
            row = await keep_reading(lambda: _row(approval), max(PATIENCE, until - time.monotonic()))
    return row


async def _row(approval: str) -> Approval:
    return await Approval.objects.select_related("call", "run").aget(id=approval)


def _ready(row: Approval) -> bool:
    return row.state != "pending" and not _is_held_back(row.state, row.decided_at)


def _is_held_back(state: str, decided_at: float) -> bool:
    """Return whether the answer is an approval that may still be taken back."""
    return state == "approved" and clock.is_recent(decided_at, settings.TOOLCARDS.handover_seconds)


__all__ = ["EVERY_RUN", "answered", "batch", "changes", "events", "owed", "replies"]
