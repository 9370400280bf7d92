"""The server's loop wakes for a signal, and rarely while no one uses the process."""

from __future__ import annotations

import asyncio
import signal

import pytest
import uvicorn

from dashboard.serving.processes.uvicorn_server import UvicornServer
from toolcards.transports.background import activity


@pytest.mark.parametrize("unused_after", [-1.0, 1e9])
async def test_a_stop_signal_ends_the_loop_of_a_used_and_of_an_unused_server(
    unused_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "UNUSED_AFTER", unused_after)
    server = UvicornServer(uvicorn.Config("none"))
    server.config.encoded_headers = []
    loop = asyncio.create_task(server.main_loop())
    await asyncio.sleep(0)
    activity.record_use()  # someone comes, and the loop continues
    await asyncio.sleep(0)
    assert not loop.done()
    server.handle_exit(signal.SIGTERM, None)
    async with asyncio.timeout(0.9):  # before the next look
        await loop
