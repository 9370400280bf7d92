"""The hub's share of the time: pages yield to frames that arrive faster than they are written."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest
from django.db import connection

from dashboard.live.hub import FLOOD_BACKLOG, FLOOD_LOAD, MAX_LOAD, limit_load
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.core.calls import facts as f


@pytest.mark.django_db(transaction=True)
def test_pages_take_less_time_while_frames_wait_to_be_written(source: Any) -> None:
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)

    async def push() -> None:
        stream = gate.open_stream(source, "flood", protocol="native")
        other.execute("BEGIN IMMEDIATE")
        for _ in range(FLOOD_BACKLOG):
            stream.push([f.TextDelta(text="a word ")])
        assert limit_load() == FLOOD_LOAD
        other.execute("ROLLBACK")
        await asyncio.wait_for(stream.wait_until_committed(), PATIENCE)

    assert limit_load() == MAX_LOAD
    asyncio.run(push())
    other.close()
    assert limit_load() == MAX_LOAD
