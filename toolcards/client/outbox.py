"""Frames on their way: numbered, kept until the server has committed them, said again on a new connection."""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from typing import Any

__all__ = ["BATCH", "Outbox"]

BATCH = 64  # frames in one message
LONGEST = 256 << 10  # characters in one message, unless one frame alone is longer
ROOM = 16 << 20  # characters kept while the server is away; past it, what can be missed is not kept
MISSABLE = frozenset({"text.delta", "reasoning.delta", "tool.input.delta", "tool.output.partial"})


class Outbox:
    """Any thread may add; one connection takes out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._frames: deque[str] = deque()
        self._size = 0
        self._sent = 0  # of `_frames`, on the connection of now
        self._counted = 0  # of this connection's frames, how many the server has acknowledged
        self.missed = 0  # frames that were not kept

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, frame: dict[str, Any]) -> None:
        """Number the frame and keep it; raises TypeError or ValueError where it is no JSON."""
        text = json.dumps(frame, allow_nan=False, separators=(",", ":"))
        with self._lock:
            if self._size > ROOM and (frame.get("type") in MISSABLE or self._size > 4 * ROOM):
                self.missed += 1
                return
            # `n` stands first: the server then finds it without parsing.
            text = f'{{"n":{next(self._numbers)},{text[1:]}'
            self._frames.append(text)
            self._size += len(text)

    def rewind(self) -> None:
        """A new connection: everything that is not acknowledged is to be said again."""
        with self._lock:
            self._sent = self._counted = 0

    def message(self) -> str:
        """Return the next message to send, "" where there is none; it counts as sent."""
        batch: list[str] = []
        size = 0
        with self._lock:
            for frame in itertools.islice(self._frames, self._sent, self._sent + BATCH):
                size += len(frame) + 1
                if batch and size > LONGEST:
                    break
                batch.append(frame)
            self._sent += len(batch)
        return batch[0] if len(batch) == 1 else f"[{','.join(batch)}]" if batch else ""

    def acknowledged(self, frames: Any) -> None:
        """The first `frames` frames of this connection are committed."""
        if type(frames) is not int:
            return
        with self._lock:
            for _ in range(min(frames - self._counted, self._sent)):
                self._size -= len(self._frames.popleft())
                self._sent -= 1
                self._counted += 1
