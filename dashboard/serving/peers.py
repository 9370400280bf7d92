"""Count, for each address, the connections and requests whose key or session was not checked yet."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from dashboard.networks import network

RETRY_AFTER = 5  # seconds


class Crowd:
    """The number of unknown peers of each address, which is limited."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def enter(self, address: str) -> Peer | None:
        """Return the newcomer, None if its address has too many already."""
        place = network(address)
        with self._lock:
            if self._counts[place] >= self.most:
                return None
            self._counts[place] += 1
        return Peer(lambda: self._leave(place), counted=True)

    def _leave(self, place: str) -> None:
        with self._lock:
            self._counts[place] -= 1
            if not self._counts[place]:
                del self._counts[place]

    def __len__(self) -> int:
        return self._counts.total()


class Peer:
    """One connection or request. `known`: the current request's key or session is good; `streams`: it may rest.

    `counted`: its address is its own; a proxy speaks for many.
    """

    def __init__(self, leave: Callable[[], None] = lambda: None, *, counted: bool = False) -> None:
        self._leave: Callable[[], None] | None = leave
        self._lock, self.counted = threading.Lock(), counted
        self.known = self.streams = False

    def admit(self, *, streams: bool = False) -> None:
        """Count it no more: it has shown who it is."""
        self.known, self.streams = True, streams
        self.close()

    def next_request(self) -> None:
        """Ask who it is again: behind a proxy, one connection carries requests of many."""
        self.known = self.streams = False

    def close(self) -> None:
        """It is gone, or known."""
        with self._lock:
            leave, self._leave = self._leave, None
        if leave is not None:
            leave()
