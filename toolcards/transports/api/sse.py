"""The event stream as server-sent events and as pages of JSON: batches of the log, replayed in short turns."""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from toolcards import feed
from toolcards.database import read_with_retries
from toolcards.long_reads import followers
from toolcards.models import Event, Run
from toolcards.transports import shutdown
from toolcards.transports.api.event_replay import EventReplay, StreamEvent, coalesce

KEEP_ALIVE = 15.0  # seconds
BATCH = 500  # events read at a time
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


class _Page:
    """A page of stream events, filled from the log until it has `limit` events."""

    def __init__(self, run: Run, cursor: tuple[float, ...] | None, limit: int) -> None:
        self.events: list[dict[str, Any]] = []
        self.cursor: str | None = None  # of the next page, once this one is full
        self._replay, self._limit, self._last = EventReplay(run), limit, (0, 0)
        self._first_seq, self._first_index = (int(cursor[0]), int(cursor[1])) if cursor else (0, 0)

    def add(self, batch: list[Event]) -> bool:
        """Add the stream events of these events.

        Return whether the page is full.
        """
        for event in batch:
            if event.seq < self._first_seq:
                self._replay.skip(event)
                continue
            for index, stream_event in enumerate(self._replay.convert(event), 1):
                if event.seq == self._first_seq and index <= self._first_index:
                    continue
                if len(self.events) == self._limit:
                    self.cursor = f"{self._last[0]}.{self._last[1]}"
                    return True
                self.events.append({"event": stream_event.name, **stream_event.data})
                self._last = event.seq, index  # sequence number, and index among its events
        return False


async def read_page(run: Run, cursor: tuple[float, ...] | None, limit: int) -> dict[str, Any]:
    """Return a page of stream events, with every piece of input."""
    page, seq = _Page(run, cursor, limit), 0
    while True:
        batch = await feed.read_events(run.pk, seq, BATCH)
        for start in range(0, len(batch), TURN):
            part = batch[start : start + TURN]
            if await followers.run(lambda: page.add(part)):  # noqa: B023 - awaited here
                return {"events": page.events, "next": page.cursor}
        if len(batch) < feed.FIRST:
            return {"events": page.events, "next": None}
        seq = batch[-1].seq
