"""The boards of pages: what each is sent, and what is not sent again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from dashboard.live import boards
from dashboard.live.base_board import BoardNews
from dashboard.live.boards import StatusBoard
from tests.support.browser_sockets import text_with, watching
from tests.support.gate_commands import make_ballot
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


async def test_every_page_shows_how_many_calls_wait(
    signed_in: Client, a_call: Callable[..., ToolCall], an_approver: Any
) -> None:
    async with watching(signed_in, "/ws/me/") as live_socket:
        assert 'data-waiting-count="0"' in await live_socket.receive_from(timeout=PATIENCE)
        call = await sync_to_async(a_call)("approval-requested")
        assert "Approval needed: Run ls" in await text_with(live_socket, 'data-waiting-count="1"')
        await sync_to_async(lambda: gate.vote(an_approver, make_ballot(call, "deny")))()
        await text_with(live_socket, 'data-waiting-count="0"')


@pytest.mark.parametrize("board", ["now", "approvals"])
async def test_what_waits_comes_and_stays_with_its_answer(
    signed_in: Client, a_call: Callable[..., ToolCall], an_approver: Any, board: str
) -> None:
    async with watching(signed_in, f"/ws/me/?board={board}") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        call = await sync_to_async(a_call)("approval-requested")
        assert 'hx-swap="place"' in await text_with(live_socket, 'value="approve"')
        await sync_to_async(lambda: gate.vote(an_approver, make_ballot(call, "deny")))()
        result = await text_with(live_socket, 'data-state="output-denied"')
        assert 'hx-swap="renew"' in result and 'value="approve"' not in result and "csrfmiddlewaretoken" not in result


async def test_the_calls_board_keeps_to_its_filters(signed_in: Client, a_call: Callable[..., ToolCall]) -> None:
    async with watching(signed_in, "/ws/me/?board=calls&tool=wanted") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        await sync_to_async(a_call)(call_id="no", tool="other")
        await sync_to_async(a_call)(call_id="yes", tool="wanted")
        assert 'data-call-id="no"' not in await text_with(live_socket, 'data-call-id="yes"')


async def test_the_runs_board_draws_its_rows_again(signed_in: Client, a_run: Callable[..., Run]) -> None:
    async with watching(signed_in, "/ws/me/?board=runs") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        await sync_to_async(a_run)("newest-run")
        await text_with(live_socket, "newest-run")


def test_what_did_not_change_is_not_said_again(db: None) -> None:
    board = StatusBoard()
    board.render_all()
    assert not board.render_changes(BoardNews([], frozenset({1})))


def test_parts_that_only_a_new_watcher_got_are_sent_to_all(a_call: Callable[..., ToolCall]) -> None:
    board = StatusBoard()
    board.render_all()
    a_call("approval-requested")
    assert 'data-waiting-count="1"' in board.render_all().text  # before the others' look
    assert 'data-waiting-count="1"' in board.render_changes(BoardNews()).text
    assert not board.render_changes(BoardNews())


def test_news_of_calls_without_approval_cost_no_count(
    a_call: Callable[..., ToolCall], django_assert_num_queries: Any
) -> None:
    board, call = StatusBoard(), a_call("output-available")
    board.render_all()
    with django_assert_num_queries(0):
        assert not board.render_changes(BoardNews([call], frozenset({call.run_id})))


def test_the_count_is_right_soon_though_no_news_came(
    a_call: Callable[..., ToolCall], an_approver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, board = a_call("approval-requested"), StatusBoard()
    assert 'data-waiting-count="1"' in board.render_all().text
    gate.vote(an_approver, make_ballot(call, "deny"))
    monkeypatch.setattr(boards, "RECHECK_SECONDS", 0.0)
    assert 'data-waiting-count="0"' in board.render_changes(BoardNews()).text


async def draw_page(client: Client) -> str:
    """Return the address of the page's socket."""
    page = await sync_to_async(lambda: client.get("/approvals/").content.decode())()
    return re.search(r'hx-ws:connect="(/ws/me/[^"]*)"', page)[1].replace("&amp;", "&")


async def read_calls(client: Client, address: str) -> list[str]:
    """Return the calls of the first message."""
    async with watching(client, address) as live_socket:
        first = await live_socket.receive_from(timeout=PATIENCE)
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
    async with watching(signed_in, address) as live_socket:
        first = await live_socket.receive_from(timeout=PATIENCE)
    assert 'data-state="output-denied"' in first and 'hx-swap="renew"' in first


@pytest.mark.parametrize("shown_calls", ["", "x", "1-1", "1-1.x_2.3", "9" * 30 + "-1.1", "1-1.1_" * 5_000, "²-1.1"])
async def test_a_broken_list_of_shown_calls_is_as_good_as_none(
    signed_in: Client, a_call: Callable[..., ToolCall], shown_calls: str
) -> None:
    await sync_to_async(a_call)("approval-requested", call_id="c1")
    assert await read_calls(signed_in, f"/ws/me/?board=approvals&shown={quote(shown_calls)}") == ["c1"]
