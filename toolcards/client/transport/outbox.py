"""Outgoing frames: numbered, kept until the server committed them, and sent again after a reconnect."""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from typing import Any

__all__ = ["BATCH", "Outbox"]

BATCH = 64  # frames in one message
LONGEST = 256 << 10  # characters in one message, unless one frame alone is longer
MAX_FRAME = (1 << 20) - 64  # characters of one frame that the server takes, less its number
CAPACITY = 16 << 20  # characters kept while the server is down; beyond it, droppable frames are dropped
DROPPABLE = frozenset({"text.delta", "reasoning.delta", "tool.input.delta", "tool.output.partial"})


class Outbox:
    """Any thread may add; one connection takes messages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._frames: deque[str] = deque()
        self._size = 0
        self._sent_count = 0  # of `_frames`, on the current connection
        self._acked_count = 0  # frames of this connection that the server acknowledged
        self.missed = 0  # frames that were dropped

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, frame: dict[str, Any]) -> None:
        """Assign the frame a number, and keep it.

        Raises TypeError or ValueError if it is not JSON.
        """
        text = json.dumps(frame, allow_nan=False, separators=(",", ":"))
        with self._lock:
            if len(text) > MAX_FRAME:  # the server would refuse the connection because of it
                self.missed += 1
                return
            if self._size > CAPACITY and (frame.get("type") in DROPPABLE or self._size > 4 * CAPACITY):
                self.missed += 1
                return
            # `n` comes first, so that the server finds it without parsing.
            text = f'{{"n":{next(self._numbers)},{text[1:]}'
            self._frames.append(text)
            self._size += len(text)

    def drop_largest(self) -> dict[str, Any] | None:
        """Drop and return the largest frame that is not committed.

        None without one.
        """
        with self._lock:
            if not self._frames:
                return None
            index = max(range(len(self._frames)), key=lambda place: len(self._frames[place]))
            text = self._frames[index]
            del self._frames[index]
            self._size -= len(text)
            self._sent_count = self._acked_count = 0
            self.missed += 1
        frame: dict[str, Any] = json.loads(text)
        return frame

    def rewind(self) -> None:
        """Start a new connection: send everything unacknowledged again."""
        with self._lock:
            self._sent_count = self._acked_count = 0

    def take_message(self) -> str:
        """Return the next message, "" if it is missing.

        It counts as sent.
        """
        batch: list[str] = []
        size = 0
        with self._lock:
            for frame in itertools.islice(self._frames, self._sent_count, self._sent_count + BATCH):
                size += len(frame) + 1
                if batch and size > LONGEST:
                    break
                batch.append(frame)
            self._sent_count += len(batch)
        return batch[0] if len(batch) == 1 else f"[{','.join(batch)}]" if batch else ""

    def acknowledge(self, frames: Any) -> None:
        """Drop the first `frames` frames of this connection, which are committed."""
        if type(frames) is not int:
            return
        with self._lock:
            for _ in range(min(frames - self._acked_count, self._sent_count)):
                self._size -= len(self._frames.popleft())
                self._sent_count -= 1
                self._acked_count += 1
