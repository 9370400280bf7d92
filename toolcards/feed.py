"""Following: look, then wait for the bell, then look again. Reads only, and never holds a thread.

A lost ring costs one heartbeat; a slow follower sees the latest state instead of every state.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from django.conf import settings

from toolcards.adapters import ADAPTERS
from toolcards.doorbell import EVERY_RUN, answers_of, listening
from toolcards.models import Approval, Event, ToolCall

HEARTBEAT = 2.0  # seconds after which a follower looks without a ring
PAGE = 500


async def events(run: int, after: int = 0) -> AsyncIterator[list[Event]]:
    """Yield the run's events after that position, in order, in batches, for ever; an empty batch is a heartbeat."""
    async with listening(run) as bell:
        while True:
            batch = [event async for event in Event.objects.after(run, after)[:PAGE]]
            if batch:
                after = batch[-1].seq
                yield batch
            if len(batch) < PAGE:
                await bell.wait(HEARTBEAT)
                if not batch:
                    yield []


async def changes(run: int, after: int = 0) -> list[ToolCall]:
    """Return the run's calls that changed after that position, oldest first."""
    calls = ToolCall.objects.filter(run=run, seq__gt=after).order_by("ordinal")
    return [call async for call in calls]


async def owed(run: int, channel: str = "socket") -> list[str]:
    """Return the ids of the answers that the run's agent is owed over such a socket and may have by now."""
    held_back = time.time() - settings.TOOLCARDS.handover_seconds
    rows = Approval.objects.owed(run, channel).values_list("id", "state", "decided_at", "opener")
    found = [(pk, opener) async for pk, state, at, opener in rows if state != "approved" or at <= held_back]
    if any(opener == "agent" for _, opener in found) and await _asks_in_batches(run):
        found = [(pk, opener) for pk, opener in found if opener == "gate"]
    return [pk for pk, _ in found]


async def _asks_in_batches(run: int) -> bool:
    """Whether the agent must get all its answers at once (AG-UI) and some of them are still missing."""
    asked = Approval.objects.filter(run=run, opener="agent", state="pending").select_related("run")
    pending = await asked.afirst()
    return pending is not None and ADAPTERS[pending.run.protocol].encode_all is not None


async def replies(run: int, channel: str = "socket") -> AsyncIterator[str]:
    """Yield the id of each answer the run's agent is owed on that channel, as soon as it may be told, for ever."""
    async with listening(answers_of(run)) as bell:
        while True:
            for approval in await owed(run, channel):
                yield approval
            await bell.wait(min(HEARTBEAT, max(0.2, settings.TOOLCARDS.handover_seconds or HEARTBEAT)))


async def answered(approval: str, seconds: float) -> Any:
    """Wait up to that long for the approval to be answered and its permit handed over; return the row."""
    until = time.monotonic() + seconds
    row = await Approval.objects.select_related("call", "run").aget(id=approval)
    async with listening(answers_of(row.run_id)) as bell:
        while not _ready(row) and (left := until - time.monotonic()) > 0:
            await bell.wait(min(left, HEARTBEAT, max(0.05, settings.TOOLCARDS.handover_seconds or HEARTBEAT)))
            row = await Approval.objects.select_related("call", "run").aget(id=approval)
    return row


def _ready(row: Approval) -> bool:
    held_back = settings.TOOLCARDS.handover_seconds if row.state == "approved" else 0
    return row.state != "pending" and row.decided_at + held_back <= time.time()


__all__ = ["EVERY_RUN", "answered", "changes", "events", "owed", "replies"]
