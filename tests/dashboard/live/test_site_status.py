"""What every open page shows of the server: switches that are thrown, also where no ring comes from."""

from __future__ import annotations

import time
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from tests.support.browser_sockets import text_with, watching
from tests.support.server import PATIENCE
from toolcards import doorbell, gate
from toolcards.models import BreakGlass

pytestmark = pytest.mark.django_db(transaction=True)


async def test_the_kill_switch_is_said_on_every_open_page_and_taken_back(signed_in: Client) -> None:
    throw = sync_to_async(gate.set_kill_switch)
    async with watching(signed_in, "/ws/me/") as live_socket:
        assert "data-killswitch" not in await live_socket.receive_from(timeout=PATIENCE)
        await throw("ben", True, "a <b>drill</b>")
        result = await text_with(live_socket, "data-killswitch")
        assert "by ben" in result and "a &lt;b&gt;drill&lt;/b&gt;" in result and 'hx-target="#standing"' in result
        await throw("ben", False)
        assert "data-killswitch" not in await text_with(live_socket, 'hx-target="#standing"')


@pytest.mark.usefixtures("frequent_checks")
async def test_a_switch_thrown_where_no_ring_comes_from_is_seen_all_the_same(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(signed_in, "/ws/me/") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        monkeypatch.setattr(doorbell, "_ring_locally", lambda runs: None)
        await sync_to_async(gate.set_kill_switch)("another process", True)
        await text_with(live_socket, "data-killswitch")


@pytest.mark.usefixtures("frequent_checks")
async def test_break_glass_is_said_and_goes_when_its_time_is_over(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/me/") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        await sync_to_async(gate.break_glass)("ben", "a fire", 60)
        assert "a fire" in await text_with(live_socket, "data-breakglass")
        await BreakGlass.objects.aupdate(until=time.time())  # nothing rings for the clock
        assert "data-breakglass" not in await text_with(live_socket, 'hx-target="#standing"')


def test_a_filling_disk_is_said_on_every_page(signed_in: Client, limits: Any) -> None:
    limits(disk_warning=0)
    assert b"data-disk" not in signed_in.get("/").content
    limits(disk_warning=0.001)  # any disk is that full
    assert b"of the server's disk are in use" in signed_in.get("/").content
