"""Which runs are being sent by connections of this process, and what is done for them by the clock.

While a connection is open its run has a lease, renewed here; the last one out leaves the run its grace time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings

from toolcards import gate
from toolcards.transports.api.auth import Caller, afind_live_keys, build_unauthorized
from toolcards.transports.api.sse import end_expired_rights

KEY_CHECK_SECONDS = 2.0  # seconds


class AgentConnection:
    """An open connection that sends frames. `end(code, message)` closes it."""

    def __init__(self, caller: Caller, end: Callable[[int, str], None] | None = None) -> None:
        self.caller, self.end = caller, end
        self.stream: gate.Stream | None = None
        self._renewed = 0.0
        connections.add(self)

    def sends(self, stream: gate.Stream) -> None:
        """Register the connection as a sender of the stream's run."""
        self.stream = stream
        _senders[stream.source.pk, stream.run_name] += 1
        self.renew(time.monotonic())

    def renew(self, now: float) -> None:
        """Renew the run's lease if it is due.

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
        return self.stream is None or not _has_other_senders(self.stream)

    def close(self, *, lease: float | None = None) -> None:
        """Unregister the connection.

        After the last of a run, its lease is the grace time or `lease`.
        """
        connections.discard(self)
        if self.stream is None:
            return
        run = (self.stream.source.pk, self.stream.run_name)
        _senders[run] -= 1
        if _senders[run] <= 0:
            del _senders[run]
            self.stream.renew_lease(settings.TOOLCARDS.grace if lease is None else lease)


async def wait_while_allowed(caller: Caller, events: Iterable[asyncio.Future[Any]]) -> None:
    """Wait for the first event; raises Problem once the key is revoked."""
    events = set(events)
    revocation: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def end(code: int, message: str) -> None:
        if not revocation.done():
            revocation.set_result(message)

    connection = AgentConnection(caller, end)
    try:
        await asyncio.wait({*events, revocation}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        connection.close()
    if revocation.done() and not any(event.done() for event in events):
        raise build_unauthorized(revocation.result())


class PostedBody:
    """A body that has arrived whole: its frames, its end and the lease of its run are one commit.

    `lease`: seconds, math.inf for a stream that ends with the body. An open connection of the run keeps its own lease.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._stream: gate.Stream | None = None

    def open(self, stream: gate.Stream) -> None:
        """Register the body as a sender of the stream's run."""
        self._stream, run = stream, (stream.source.pk, stream.run_name)
        stream.urgent = stream.reports_cards = True
        _posts[run] += 1
        stream.is_shared = _has_other_senders(stream)
        if run not in _senders:
            stream.prepare_lease(self._lease)

    def close(self) -> None:
        """Unregister the body, after its commit or its failure."""
        if self._stream is not None:
            run = (self._stream.source.pk, self._stream.run_name)
            _posts[run] -= 1
            if _posts[run] <= 0:
                del _posts[run]


def _has_other_senders(stream: gate.Stream) -> bool:
    run = (stream.source.pk, stream.run_name)
    return _senders[run] + _posts[run] > 1


connections: set[AgentConnection] = set()
_senders: Counter[tuple[int, str]] = Counter()  # open connections by run
_posts: Counter[tuple[int, str]] = Counter()  # bodies whose commit is awaited, by run
_keys_checked = 0.0


_held_approvals: Counter[str] = Counter()  # by the requests of this process that wait for the answer
HOLD_SECONDS = 20.0  # seconds between two renewals of their holds
_holds_renewed = 0.0


@contextmanager
def hold_approval(approval: str) -> Iterator[None]:
    """Keep the approval open while this request waits for the answer."""
    _held_approvals[approval] += 1
    try:
        yield
    finally:
        _held_approvals[approval] -= 1
        if not _held_approvals[approval]:
            del _held_approvals[approval]


async def renew_holds() -> None:
    """Renew the holds of approvals that requests wait for, if due."""
    global _holds_renewed
    now = time.monotonic()
    if _held_approvals and now - _holds_renewed >= HOLD_SECONDS:
        await gate.arenew_holds(_held_approvals)
        _holds_renewed = now


async def check_connections() -> None:
    """Renew leases; end the connections whose right has ended."""
    global _keys_checked
    now = time.monotonic()
    for connection in list(connections):
        connection.renew(now)
    if now - _keys_checked < KEY_CHECK_SECONDS:
        return
    _keys_checked = now
    await end_expired_rights()
    if not connections:
        return
    live = await afind_live_keys({connection.caller.key for connection in connections})
    for connection in list(connections):
        if connection.end is not None and connection.caller.key not in live:
            connection.end(4401, "This key was revoked.")
