"""A browser that confirms its frames is never sent more than it handles; what it skips comes as the latest state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from dashboard.live import frames
from dashboard.live.frames import MAX_UNCONFIRMED
from tests.support.browser_sockets import text_with, watching
from tests.support.gate_commands import RecordFacts
from tests.support.server import PATIENCE
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit
from toolcards.models import Run

pytestmark = pytest.mark.django_db(transaction=True)
CHANGES = 6
say = sync_to_async(
    lambda source, run, *facts: group_commit.execute(RecordFacts(source, run, list(facts))), thread_sensitive=True
)


async def begin_call(source: Any, number: int) -> None:
    await say(source, "slow", f.InputReady(f"c{number}", "Read", {"path": "a"}, False))


async def test_a_browser_that_stops_confirming_gets_what_it_missed_in_one_frame(
    signed_in: Client, a_run: Callable[..., Run], source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MAX_WAIT", 2 * PATIENCE)
    await sync_to_async(a_run)("slow", f.InputReady("c0", "Read", {"path": "a"}, False))
    async with watching(signed_in, "/ws/runs/slow/") as live_socket:
        await text_with(live_socket, 'data-call-id="c0"')
        await live_socket.send_to(text_data="ok")
        unconfirmed: list[str] = []
        for number in range(1, CHANGES + 1):
            await begin_call(source, number)
            if len(unconfirmed) < MAX_UNCONFIRMED:  # changes that come together would share a frame
                unconfirmed.append(await live_socket.receive_from(timeout=PATIENCE))
        assert await live_socket.receive_nothing(timeout=0.5) and "c6" not in "".join(unconfirmed)
        await live_socket.send_to(text_data="ok")
        late = await live_socket.receive_from(timeout=PATIENCE)
        missing_frames = [
            number for number in range(1, CHANGES + 1) if f'data-call-id="c{number}"' not in "".join(unconfirmed)
        ]
        assert missing_frames and all(f'data-call-id="c{number}"' in late for number in missing_frames)


async def test_a_browser_that_never_confirms_is_sent_all_frames(
    signed_in: Client, a_run: Callable[..., Run], source: Any
) -> None:
    await sync_to_async(a_run)("slow", f.InputReady("c0", "Read", {"path": "a"}, False))
    async with watching(signed_in, "/ws/runs/slow/") as live_socket:
        for number in range(1, CHANGES + 1):
            await begin_call(source, number)
            await text_with(live_socket, f'data-call-id="c{number}"')


async def test_a_lost_confirmation_holds_frames_back_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_WAIT", 0.05)
    window = frames.SendWindow()
    window.record_confirmed()
    for _ in range(MAX_UNCONFIRMED):
        window.record_sent()
    await asyncio.wait_for(window.wait_until_open(), PATIENCE)
