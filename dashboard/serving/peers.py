"""Counts for each address the connections and requests whose key or session is unchecked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from dashboard.networks import to_network

RETRY_AFTER = 5  # seconds


class UnknownPeers:
    """The unknown peers of each address, with a limit on their number."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._places: dict[str, dict[Peer, None]] = {}  # oldest first
        self._lock = threading.Lock()

    def enter(self, address: str, close_for_newer: Callable[[], bool] = lambda: False) -> Peer | None:
        """Return the new peer, None if its address has too many.

        `close_for_newer`: end this connection in favor of a newer one, if it keeps us waiting; return whether it does.
        """
        place = to_network(address)
        with self._lock:
            is_full = len(self._places.get(place, ())) >= self.most
        if is_full:
            self._make_room(place)
        peer = Peer(partial(self._leave, place), close_for_newer, is_counted=True)
        with self._lock:
            inside = self._places.setdefault(place, {})
            if len(inside) >= self.most:
                return None
            inside[peer] = None
        return peer

    def _make_room(self, place: str) -> None:
        with self._lock:
            inside = list(self._places.get(place, ()))
        for peer in inside:
            if peer.close_for_newer():
                peer.close()
                return

    def _leave(self, place: str, peer: Peer) -> None:
        with self._lock:
            inside = self._places.get(place, {})
            inside.pop(peer, None)
            if not inside:
                self._places.pop(place, None)

    def __len__(self) -> int:
        return sum(len(inside) for inside in self._places.values())


class Peer:
    """One connection or request. `known`: the current key or session is valid; `streams`: it may pause.

    `counted`: its address is its own, since a proxy sends for many. `close_for_newer`: see UnknownPeers.enter.
    """

    def __init__(
        self,
        leave: Callable[[Peer], None] = lambda _: None,
        close_for_newer: Callable[[], bool] = lambda: False,
        *,
        is_counted: bool = False,
    ) -> None:
        self._leave: Callable[[Peer], None] | None = leave
        self.close_for_newer = close_for_newer
        self._lock, self.is_counted = threading.Lock(), is_counted
        self.is_known = self.streams = False

    def admit(self, *, streams: bool = False) -> None:
        """Stop counting the peer, which has proven its identity."""
        self.is_known, self.streams = True, streams
        self.close()

    def next_request(self) -> None:
        """Forget the identity; a proxy's connection carries requests of many peers."""
        self.is_known = self.streams = False

    def close(self) -> None:
        """Stop counting the peer, which is known or gone."""
        with self._lock:
            leave, self._leave = self._leave, None
        if leave is not None:
            leave(self)
