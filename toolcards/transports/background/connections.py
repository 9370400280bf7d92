"""Which runs are being sent by connections of this process, and what is done for them by the clock.

While a connection is open its run has a lease, renewed here; the last one out leaves the run its grace time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from django.conf import settings

from toolcards import gate
from toolcards.transports.api.auth import Caller, afind_live_keys

KEY_CHECK_SECONDS = 2.0  # seconds


class Connection:
    """An open connection that sends frames. `end(code)` is how it is told to go."""

    def __init__(self, caller: Caller, end: Callable[[int, str], None] | None = None) -> None:
        self.caller, self.end = caller, end
        self.stream: gate.Stream | None = None
        self._renewed = 0.0
        connections.add(self)

    def sends(self, stream: gate.Stream) -> None:
        """The connection's run is known now."""
        self.stream = stream
        _senders[stream.source.pk, stream.run_name] += 1
        self.renew(time.monotonic())

    def renew(self, now: float) -> None:
        """Renew the run's lease, if that is due.

        Always sooner than the grace time: when the last connection of another process closes, it leaves the run that
        long and knows nothing of ours.
        """
        grace = settings.TOOLCARDS.grace
        if self.stream is not None and now - self._renewed >= min(20.0, grace / 2):
            self._renewed = now
            self.stream.renew_lease(2 * grace + 60)

    @property
    def is_alone(self) -> bool:
        """Whether no other connection of this process sends the run."""
        return self.stream is None or _senders[self.stream.source.pk, self.stream.run_name] <= 1

    def close(self, *, lease: float | None = None) -> None:
        """The connection is over; without another one of its run, the run has its grace time (or `lease`) left."""
        connections.discard(self)
        if self.stream is None:
            return
        run = (self.stream.source.pk, self.stream.run_name)
        _senders[run] -= 1
        if _senders[run] <= 0:
            del _senders[run]
            self.stream.renew_lease(settings.TOOLCARDS.grace if lease is None else lease)


connections: set[Connection] = set()
_senders: Counter[tuple[int, str]] = Counter()
_keys_checked = 0.0


async def check_connections() -> None:
    """Renew leases; end the connections of keys that open no door any more."""
    global _keys_checked
    now = time.monotonic()
    for connection in list(connections):
        connection.renew(now)
    if now - _keys_checked < KEY_CHECK_SECONDS or not connections:
        return
    _keys_checked = now
    live = await afind_live_keys({connection.caller.key for connection in connections})
    for connection in list(connections):
        if connection.end is not None and connection.caller.key not in live:
            connection.end(4401, "This key was revoked.")
