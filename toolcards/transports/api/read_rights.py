"""The right to read a stream, checked every few seconds while the stream is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from toolcards.transports.api.auth import Caller, afind_live_keys, afind_reading_tokens
from toolcards.transports.api.seats import afind_expired_seats

T = TypeVar("T")


class OpenRight:
    """The right of one reader, until it ends."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.has_ended = False
        self.timeout: asyncio.Timeout | None = None  # of the wait for the next item

    def end(self) -> None:
        """End the right, and the wait for the next item."""
        self.has_ended = True
        if self.timeout is not None:
            self.timeout.reschedule(asyncio.get_running_loop().time())


open_rights: set[OpenRight] = set()


async def iterate_while_allowed(caller: Caller, items: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield the items until the caller may not read them any more."""
    right = OpenRight(caller)
    open_rights.add(right)
    try:
        while not right.has_ended:
            try:
                async with asyncio.timeout(None) as right.timeout:  # not around the `yield`, which is the reader's
                    item = await anext(items)
            except (TimeoutError, StopAsyncIteration):
                return
            right.timeout = None
            if not right.has_ended:
                yield item
    finally:
        open_rights.discard(right)


async def end_expired_rights() -> None:
    """End the rights of those who may not read any more."""
    rights = list(open_rights)
    callers = {right.caller for right in rights}
    seats = {caller.seat for caller in callers if caller.seat is not None}
    tokens = {caller.token for caller in callers if caller.token}
    keys = {caller.key for caller in callers if caller.seat is None and not caller.token}
    expired_seats = await afind_expired_seats(seats) if seats else {}
    live_tokens = await afind_reading_tokens(tokens) if tokens else set()
    live_keys = await afind_live_keys(keys) if keys else set()
    for right in rights:
        caller = right.caller
        if caller.seat is not None:
            may_read = caller.seat not in expired_seats
        else:
            may_read = caller.token in live_tokens if caller.token else caller.key in live_keys
        if not may_read:
            right.end()
