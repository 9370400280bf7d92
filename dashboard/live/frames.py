"""What goes over a browser's socket: named parts of the page, the latest of each, joined into one message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cached_property, reduce
from operator import or_

from django.db.models import Q

from dashboard.cards.rendering import MAX_PARTS, PIECE_MARK, PageState, place_card
from toolcards.models import ToolCall

MAX_UNCONFIRMED = 2  # frames on the way to one browser: one that it draws, and the next
MAX_WAIT = 15.0  # seconds to wait for a confirmation; then the frame is sent anyway


class Frame:
    """Parts of the page by name; joined once, however many watchers get it.

    `seqs`: up to which position in its run each part was drawn, where that is known.
    """

    def __init__(self, parts: Mapping[str, str], seqs: Mapping[str, int] | None = None) -> None:
        self.parts, self.seqs = parts, seqs or {}

    @cached_property
    def text(self) -> str:
        """The message."""
        return "".join(self.parts.values())

    def select_newer(self, page: PageState) -> Frame:
        """Return the parts that the page lacks."""
        old_parts = {name for name, seq in self.seqs.items() if seq <= page.calls.get(name, page.seq)}
        return Frame({name: self.parts[name] for name in self.parts if name not in old_parts}) if old_parts else self

    def merge(self, later: Frame) -> Frame:
        """Merge a later frame into this one; its parts win.

        A card replaces the pieces that came before it.
        """
        names = later.parts.keys()
        kept_parts = {
            name: part for name, part in self.parts.items()
            if name not in names and name.partition(PIECE_MARK)[0] not in names
        }  # fmt: skip
        return Frame(kept_parts | dict(later.parts))

    def __len__(self) -> int:
        return len(self.parts)


def render_answered(call_ids: Iterable[str]) -> Frame:
    """Return the current state of calls that a page shows as waiting."""
    places = [Q(run=run, ordinal=ordinal) for run, ordinal in (call_id.split("-") for call_id in call_ids)]
    rows = ToolCall.objects.filter(reduce(or_, places)).select_related("run", "run__source")
    return Frame({call.public_id: place_card(call, known_only=True) for call in rows})


class Pacing:
    """Spaces events on average; after a rest, some may follow each other at once (GCRA).

    `allowance`: how many seconds the events may be ahead of an even pace.
    """

    def __init__(self, allowance: float) -> None:
        self._allowance = allowance
        self._next_slot = 0.0  # when the events so far would have happened at an even pace

    def record(self, now: float, interval: float) -> float:
        """Record an event and return how long the next one must wait.

        `now`, the result and `interval`, which this event takes up, are seconds of one clock.
        """
        self._next_slot = max(self._next_slot, now) + interval
        return max(0.0, self._next_slot - self._allowance - now)


class SendWindow:
    """Holds frames back while a browser has not handled the ones before; the network would buffer seconds of them.

    Browsers confirm each frame that they have handled. One that never confirmed anything is sent all frames.
    """

    def __init__(self) -> None:
        self._unconfirmed = 0
        self._confirms = False
        self._confirmed = asyncio.Event()

    def record_sent(self) -> None:
        """Count a frame that was sent."""
        self._unconfirmed += 1

    def record_confirmed(self) -> None:
        """Count a frame that the browser has handled."""
        self._confirms = True
        self._unconfirmed = max(0, self._unconfirmed - 1)
        self._confirmed.set()

    async def wait_until_open(self) -> None:
        """Wait until the next frame may be sent."""
        while self._confirms and self._unconfirmed >= MAX_UNCONFIRMED:
            self._confirmed.clear()
            try:
                async with asyncio.timeout(MAX_WAIT):
                    await self._confirmed.wait()
            except TimeoutError:
                self._unconfirmed = 0


class FrameSlot:
    """The frame that is to be sent to one browser next. Bounded: a slow reader gets the latest state, never a backlog.

    The hub's ticks keep the pace; a reader takes each frame as soon as its browser has taken the one before.
    """

    def __init__(self) -> None:
        self._frame: Frame | None = None
        self._ready = asyncio.Event()
        self.overflowed = False

    def offer(self, frame: Frame) -> None:
        """Put the frame in, without waiting.

        The same frame object goes to every watcher that is up to date.
        """
        before = self._frame
        if before is None:
            self._frame = frame
        elif len(merged_frame := before.merge(frame)) > MAX_PARTS:
            self._frame, self.overflowed = None, True
        else:
            self._frame = merged_frame
        self._ready.set()

    async def take(self) -> Frame | None:
        """Wait for something to send and return it.

        None if only the whole board brings the browser up to date.
        """
        await self._ready.wait()
        self._ready.clear()
        frame, self._frame = self._frame, None
        return frame


def join_frames(frames: Iterable[Frame]) -> Frame:
    """Return several boards' frames as one."""
    parts: dict[str, str] = {}
    for frame in frames:
        parts.update(frame.parts)
    return Frame(parts)
