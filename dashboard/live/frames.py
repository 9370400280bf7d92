"""What goes over a browser's socket: named parts of the page, the latest of each, joined into one message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cached_property

from dashboard import cards
from toolcards.models import ToolCall

MOST_PARTS = 400  # of one watcher; beyond, it is sent its whole boards instead


class Frame:
    """Parts of the page by name; joined once, however many watchers get it."""

    def __init__(self, parts: Mapping[str, str]) -> None:
        self.parts = parts

    @cached_property
    def text(self) -> str:
        """The message."""
        return "".join(self.parts.values())

    def then(self, later: Frame) -> Frame:
        """Return this frame with a later one over it: the latest of each part."""
        return Frame({**self.parts, **later.parts})

    def __len__(self) -> int:
        return len(self.parts)


def partial(target: str, swap: str, html: str) -> str:
    """Return one part: what to put where."""
    return f'<hx-partial hx-target="{target}" hx-swap="{swap}">{html}</hx-partial>'


def placed(call: ToolCall, *, known_only: bool = False) -> str:
    """Return the part that puts a card on a board; `known_only` where it is there already."""
    if call.removed:
        return partial("#board", "place", cards.gone(call))
    return partial("#board", "renew" if known_only else "place", cards.render(call))


class Slot:
    """What one browser has yet to be sent. Bounded: a slow reader gets the latest state, never a backlog."""

    def __init__(self) -> None:
        self._frame: Frame | None = None
        self._ready = asyncio.Event()
        self.overflowed = False

    def offer(self, frame: Frame) -> None:
        """Put it in; never waits. The same frame object goes to every watcher that is up to date."""
        joined = frame if self._frame is None else self._frame.then(frame)
        if len(joined) > MOST_PARTS and self._frame is not None:
            self._frame, self.overflowed = None, True
        else:
            self._frame = joined
        self._ready.set()

    async def take(self) -> Frame | None:
        """Wait for something to send and return it; None where only the whole board helps."""
        await self._ready.wait()
        self._ready.clear()
        frame, self._frame = self._frame, None
        return frame


def join(frames: Iterable[Frame]) -> Frame:
    """Return several boards' frames as one."""
    parts: dict[str, str] = {}
    for frame in frames:
        parts.update(frame.parts)
    return Frame(parts)
