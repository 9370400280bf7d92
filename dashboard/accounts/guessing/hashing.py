"""Password hashing with few slots per process: clients that guess wait for each other, and other pages stay fast.

One hash occupies a processor for a large part of a second. A full queue raises `HashingBusy` immediately.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.hashers import PBKDF2PasswordHasher

SLOTS = max(1, (os.cpu_count() or 2) // 4)  # concurrent hashes in each process
MAX_WAITING = 8  # queued hashes
RETRY_AFTER = 5  # seconds


class HashingBusy(Exception):
    """The queue for hashing is full."""


class HashingSlots:
    """Limits the threads that hash, and the threads that wait for a slot."""

    def __init__(self, places: int = SLOTS, queue: int = MAX_WAITING) -> None:
        self._most, self._inside = places + queue, 0
        self._free, self._lock = threading.Semaphore(places), threading.Lock()

    @contextmanager
    def hold_slot(self) -> Iterator[None]:
        """Wait for a slot and hold it.

        Raises HashingBusy if the queue is full.
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
    """Django's own hasher, in one of the slots. Raises HashingBusy."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """Return the encoded password. Django also calls this for every password check."""
        with hashing_slots.hold_slot():
            return str(super().encode(password, salt, iterations))
