"""The channel layer over Redis delivers messages, and sleeps in between."""

from __future__ import annotations

import asyncio
import selectors
from pathlib import Path
from typing import Any

import pytest

from tests.support.services import redis
from toolcards.channel_layers.waiting_redis import WaitingRedisLayer


class CountingSelector(selectors.DefaultSelector):
    """Counts how often an event loop wakes."""

    wake_ups = 0

    def select(self, timeout: float | None = None) -> Any:
        self.wake_ups += 1
        return super().select(timeout)


@pytest.mark.redis
def test_a_layer_wakes_for_messages_and_not_to_look_for_them(tmp_path: Path) -> None:
    selector = CountingSelector()

    async def talk(url: str) -> tuple[Any, int]:
        layer = WaitingRedisLayer(hosts=[url], prefix="toolcards")
        channel = await layer.new_channel()
        await layer.group_add("all", channel)
        await asyncio.sleep(0.2)
        before = selector.wake_ups
        await asyncio.sleep(1)
        wake_ups = selector.wake_ups - before
        await layer.group_send("all", {"type": "ring"})
        async with asyncio.timeout(30):
            message = await layer.receive(channel)
        await layer.flush()
        return message, wake_ups

    with redis(tmp_path) as url, asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        message, wake_ups = runner.run(talk(url))
    assert message == {"type": "ring"} and wake_ups <= 3
