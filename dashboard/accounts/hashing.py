"""Hash passwords in few places at a time: guessing clients wait for each other, and other pages go on.

One hash takes a processor for a good part of a second. If the queue is full, `Busy` is raised at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.hashers import PBKDF2PasswordHasher

SLOTS = max(1, (os.cpu_count() or 2) // 4)  # hashes at the same time, in each process
MAX_WAITING = 8  # who waits for a place
RETRY_AFTER = 5  # seconds


class HashingBusy(Exception):
    """The queue for hashing is full."""


class HashingSlots:
    """So many threads at a time, and so many more that wait."""

    def __init__(self, places: int = SLOTS, queue: int = MAX_WAITING) -> None:
        self._most, self._inside = places + queue, 0
        self._free, self._lock = threading.Semaphore(places), threading.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a place and hold it.

        Raises HashingBusy if too many wait.
        """
        with self._lock:
            if self._inside >= self._most:
                raise HashingBusy
            self._inside += 1
        try:
            with self._free:
                yield
        finally:
            with self._lock:
                self._inside -= 1


hashing_slots = HashingSlots()


class BoundedPBKDF2(PBKDF2PasswordHasher):
    """Django's own hasher, in one of the places; raises Busy."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """See Django; every check of a password goes through here, too."""
        with hashing_slots.one():
            return str(super().encode(password, salt, iterations))
