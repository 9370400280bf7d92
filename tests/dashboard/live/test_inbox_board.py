"""The board of the inbox: a page that was just drawn is sent only what it lacks, and what waits no longer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from tests.support.browser_sockets import watching
from tests.support.gate_commands import make_ballot
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


async def draw_page(client: Client) -> str:
    """Return the address of the page's socket."""
    page = await sync_to_async(lambda: client.get("/approvals/").content.decode())()
    return re.search(r'hx-ws:connect="(/ws/me/[^"]*)"', page)[1].replace("&amp;", "&")


async def read_calls(client: Client, address: str) -> list[str]:
    """Return the calls of the first message."""
    async with watching(client, address) as opened:
        first = await opened.receive_from(timeout=PATIENCE)
    assert 'id="waiting-line"' in first
    return re.findall(r'data-call-id="(c\d)"', first)


async def test_the_socket_of_the_inbox_sends_no_call_that_the_page_has(
    signed_in: Client, a_call: Callable[..., ToolCall]
) -> None:
    for n in range(3):
        await sync_to_async(a_call)("approval-requested", call_id=f"c{n}", run=f"run-{n % 2}")
    address = await draw_page(signed_in)
    assert await read_calls(signed_in, address) == []
    await sync_to_async(a_call)("approval-requested", call_id="c3", run="run-0")
    assert await read_calls(signed_in, address) == ["c3"]
    assert await read_calls(signed_in, "/ws/me/?board=approvals") == ["c0", "c1", "c2", "c3"]


async def test_a_call_that_was_answered_after_the_page_was_drawn_is_sent_with_its_answer(
    signed_in: Client, a_call: Callable[..., ToolCall], an_approver: Any
) -> None:
    call = await sync_to_async(a_call)("approval-requested", call_id="c1")
    address = await draw_page(signed_in)
    await sync_to_async(lambda: gate.vote(an_approver, make_ballot(call, "deny")))()
    async with watching(signed_in, address) as opened:
        first = await opened.receive_from(timeout=PATIENCE)
    assert 'data-state="output-denied"' in first and 'hx-swap="renew"' in first


@pytest.mark.parametrize("shown", ["", "x", "1-1", "1-1.x_2.3", "9" * 30 + "-1.1", "1-1.1_" * 5_000, "²-1.1"])
async def test_a_broken_list_of_shown_calls_is_as_good_as_none(
    signed_in: Client, a_call: Callable[..., ToolCall], shown: str
) -> None:
    await sync_to_async(a_call)("approval-requested", call_id="c1")
    assert await read_calls(signed_in, f"/ws/me/?board=approvals&shown={quote(shown)}") == ["c1"]
