"""The event stream as server-sent events and as pages of JSON: batches of the log, replayed in short turns."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

from toolcards import feed
from toolcards.database import read_with_retries
from toolcards.long_reads import followers
from toolcards.models import Event, Run
from toolcards.transports import shutdown
from toolcards.transports.api.auth import Caller, afind_live_keys, afind_reading_tokens
from toolcards.transports.api.event_replay import EventReplay, StreamEvent, coalesce
from toolcards.transports.api.seats import afind_expired_seats

# The right to read a stream, checked every few seconds while the stream is open.
T = TypeVar("T")


class OpenRight:
    """The right of one reader, until it ends."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.has_ended = False
        self.timeout: asyncio.Timeout | None = None  # of the wait for the next item

    def end(self) -> None:
        """End the right, and the wait for the next item."""
        self.has_ended = True
        if self.timeout is not None:
            self.timeout.reschedule(asyncio.get_running_loop().time())


open_rights: set[OpenRight] = set()


async def iterate_while_allowed(caller: Caller, items: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield the items until the caller may not read them any more."""
    right = OpenRight(caller)
    open_rights.add(right)
    try:
        while not right.has_ended:
            try:
                async with asyncio.timeout(None) as right.timeout:  # not around the `yield`, which is the reader's
                    item = await anext(items)
            except (TimeoutError, StopAsyncIteration):
                return
            right.timeout = None
            if not right.has_ended:
                yield item
    finally:
        open_rights.discard(right)


async def end_expired_rights() -> None:
    """End the rights of those who may not read any more."""
    rights = list(open_rights)
    callers = {right.caller for right in rights}
    seats = {caller.seat for caller in callers if caller.seat is not None}
    tokens = {caller.token for caller in callers if caller.token}
    keys = {caller.key for caller in callers if caller.seat is None and not caller.token}
    expired_seats = await afind_expired_seats(seats) if seats else {}
    live_tokens = await afind_reading_tokens(tokens) if tokens else set()
    live_keys = await afind_live_keys(keys) if keys else set()
    for right in rights:
        caller = right.caller
        if caller.seat is not None:
            may_read = caller.seat not in expired_seats
        else:
            may_read = caller.token in live_tokens if caller.token else caller.key in live_keys
        if not may_read:
            right.end()


KEEP_ALIVE = 15.0  # seconds
BATCH = 500  # events read at a time
MAX_READERS, READER_SECONDS = 8, 30.0  # that wait for the request of their next page, and for how long
TURN = 50  # events replayed before another reader has its turn


async def stream_frames(run: Run, after: int) -> AsyncIterator[bytes]:
    """Yield the events after `after` as server-sent events.

    They end when the server stops or the run is deleted. A position beyond the log is of another one, as before a
    restored backup or of a deleted run: then all are sent.
    """
    replay, last_sent = EventReplay(run), time.monotonic()
    after = after if after <= run.seq else 0
    yield b": this is the event stream of one run\n\n"
    async for batch in shutdown.iterate_until_stopping(feed.follow_events(run.pk)):
        for start in range(0, len(batch), TURN):
            part = batch[start : start + TURN]
            if frames := await followers.run(lambda: _replay_frames(replay, part, after)):  # noqa: B023
                last_sent = time.monotonic()
                yield frames
        if time.monotonic() - last_sent >= KEEP_ALIVE:
            last_sent = time.monotonic()
            if not await read_with_retries(Run.objects.filter(pk=run.pk).aexists, math.inf):
                return
            yield b": still here\n\n"


def _replay_frames(replay: EventReplay, batch: list[Event], after: int) -> bytes:
    """Return the frames of the events after `after`.

    The others are only applied.
    """
    old = [event for event in batch if event.seq <= after]
    for event in old:
        replay.skip(event)
    events = list(coalesce(replay, batch[len(old) :]))
    return "".join(_format_frames(events)).encode()


def _format_frames(events: list[StreamEvent]) -> Iterator[str]:
    """Yield the frames. Of two with one sequence number only the last has the id, so a resume repeats both."""
    for index, event in enumerate(events):
        last = index + 1 == len(events) or events[index + 1].seq != event.seq
        mark = f"id: {event.seq}\n" if last else ""
        yield f"event: {event.name}\n{mark}data: {json.dumps(event.data, separators=(',', ':'))}\n\n"


class _PageReader:
    """A replay of a log that continues where its last page ended."""

    def __init__(self, run: Run) -> None:
        self._replay = EventReplay(run)
        self.seq = 0  # of the last event that was applied
        self.remaining: deque[tuple[int, int, StreamEvent]] = deque()  # sequence number, index among its events, event
        self.used_at = time.monotonic()

    def read(self, event: Event, after: tuple[int, int]) -> None:
        """Apply an event; keep its stream events after that position."""
        self.seq = event.seq
        if event.seq < after[0]:
            self._replay.skip(event)
            return
        stream_events = enumerate(self._replay.convert(event), 1)
        self.remaining += [(event.seq, index, each) for index, each in stream_events if (event.seq, index) > after]


# Readers that wait for the request of their next page, so that it does not begin at the first event again. What is
# masked meanwhile is read again.
_Key = tuple[int, object, tuple[int, int]]  # run, when it was masked, position
_waiting_readers: dict[_Key, _PageReader] = {}


class _Page:
    """A page of stream events, filled from the log until it has `limit` events."""

    def __init__(self, run: Run, cursor: tuple[float, ...] | None, limit: int) -> None:
        self.events: list[dict[str, Any]] = []
        self.cursor: str | None = None  # of the next page, once this one is full
        self._limit = limit
        self._last = self._after = (int(cursor[0]), int(cursor[1])) if cursor else (0, 0)
        self._run = (run.pk, run.scrubbed_at)
        reader = _waiting_readers.pop((*self._run, self._after), None)
        self._reader = reader or _PageReader(run)

    @property
    def seq(self) -> int:
        """The last event that was applied."""
        return self._reader.seq

    def add(self, batch: list[Event]) -> bool:
        """Add the stream events of these events.

        Return whether the page is full.
        """
        for event in batch:
            self._reader.read(event, self._after)
            if self.fill():
                return True
        return False

    def fill(self) -> bool:
        """Add what the reader has.

        Return whether something is left for a next page.
        """
        remaining = self._reader.remaining
        while remaining and len(self.events) < self._limit:
            seq, index, stream_event = remaining.popleft()
            self.events.append({"event": stream_event.name, **stream_event.data})
            self._last = seq, index
        self.cursor = f"{self._last[0]}.{self._last[1]}" if remaining else None
        return bool(remaining)

    def end(self) -> dict[str, Any]:
        """Keep the reader for the next page, and return this one."""
        if self.cursor is not None:
            self._reader.used_at = time.monotonic()
            _waiting_readers[(*self._run, self._last)] = self._reader
            _drop_readers()
            asyncio.get_running_loop().call_later(READER_SECONDS + 1, _drop_readers)  # each has all calls of its run
        return {"events": self.events, "next": self.cursor}


def _drop_readers() -> None:
    """Drop the readers that have waited for too long, and the oldest of too many."""
    now = time.monotonic()
    for key, reader in list(_waiting_readers.items()):
        if len(_waiting_readers) > MAX_READERS or now - reader.used_at >= READER_SECONDS:
            _waiting_readers.pop(key, None)


async def read_page(run: Run, cursor: tuple[float, ...] | None, limit: int) -> dict[str, Any]:
    """Return a page of stream events, with every piece of input."""
    page = _Page(run, cursor, limit)
    if page.fill():
        return page.end()
    seq = page.seq
    while True:
        batch = await feed.read_events(run.pk, seq, BATCH)
        for start in range(0, len(batch), TURN):
            part = batch[start : start + TURN]
            if await followers.run(lambda: page.add(part)):  # noqa: B023 - awaited here
                return page.end()
        if len(batch) < feed.FIRST:
            return page.end()
        seq = batch[-1].seq
