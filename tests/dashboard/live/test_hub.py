"""The hub: one rendering for all browsers, lost rings, and its share of the time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from dashboard.asgi import application
from dashboard.cards import rendering
from dashboard.cards.rendering import MAX_PARTS
from dashboard.live import hub
from dashboard.live.base_board import BoardNews
from dashboard.live.boards import BOARDS
from dashboard.live.hub import FLOOD_BACKLOG, FLOOD_LOAD, MAX_LOAD, limit_load
from dashboard.live.run_board import RunBoard
from dashboard.runs.views import PAGE
from tests.support.browser_sockets import say, socket, text_with, until_true, watching
from tests.support.server import PATIENCE
from toolcards import doorbell, gate
from toolcards.core.calls import facts as f
from toolcards.models import Run, ToolCall
from toolcards.models.write_guard import allow_log_writes


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


pytestmark = pytest.mark.django_db(transaction=True)


async def test_many_changes_are_few_frames(signed_in: Client, a_run: Callable[..., Run], source: Any) -> None:
    await sync_to_async(a_run)("busy", f.InputStarted("c1", "Bash"))
    async with watching(signed_in, "/ws/runs/busy/") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        before, shown_text = rendering.card_cache.renders, asyncio.get_running_loop().time()
        for number in range(60):
            await say(source, "busy", f.InputDelta("c1", f"{number} "))
        frames = 1
        while "59 " not in await live_socket.receive_from(timeout=PATIENCE):  # alone, or after others
            frames += 1
        looks = (asyncio.get_running_loop().time() - shown_text) / hub.TICK_SECONDS + hub.BURST
        assert frames <= looks and rendering.card_cache.renders - before <= looks


async def test_a_request_for_approval_does_not_wait_for_the_tick(
    signed_in: Client, a_call: Callable[..., ToolCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "TICK_SECONDS", 10 * PATIENCE)
    async with watching(signed_in, "/ws/me/?board=approvals") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        for number in range(2 * hub.BURST):  # more than may follow each other at once
            call = await sync_to_async(a_call)("approval-requested", call_id=f"c{number}", run=f"run{number}")
            assert f'id="c-{call.public_id}"' in await text_with(live_socket, call.public_id)


def test_a_card_is_rendered_once_for_all_pages(a_call: Callable[..., ToolCall]) -> None:
    call = a_call()
    call = ToolCall.objects.select_related("run", "run__source").get(pk=call.pk)
    before = rendering.card_cache.renders
    boards = [RunBoard(call.run_id), BOARDS["calls"](""), BOARDS["calls"]("tool=bash")]
    for board in boards:
        assert board.render_changes(BoardNews([call], frozenset({call.run_id})))
    assert rendering.card_cache.renders - before == 1


class SlowBrowser:
    """A browser that takes what it is sent only while `reads` is set."""

    def __init__(self, client: Client, path: str) -> None:
        self.scope = socket(client, path).scope
        self.reads, self.stuck, self.leave_event = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.reads.set()
        self.messages: list[str] = []

    async def receive(self) -> dict[str, Any]:
        if not self.messages:
            self.messages.append("")
            return {"type": "websocket.connect"}
        await self.leave_event.wait()
        return {"type": "websocket.disconnect", "code": 1001}

    async def send(self, message: dict[str, Any]) -> None:
        if not self.reads.is_set():
            self.stuck.set()
            await self.reads.wait()
        self.messages.append(message.get("text", ""))

    def has(self, expected: str) -> bool:
        return any(expected in text for text in self.messages)


async def test_who_takes_nothing_for_long_is_sent_the_whole_board_though_nothing_more_happens(
    signed_in: Client, a_run: Callable[..., Run], source: Any
) -> None:
    run = await sync_to_async(a_run)("long", f.InputReady("first", "Bash", {}, True))
    browser = SlowBrowser(signed_in, "/ws/runs/long/")
    serving = asyncio.create_task(application(browser.scope, browser.receive, browser.send))
    await until_true(lambda: browser.has('data-call-id="first"'))
    (watcher,) = hub.get_hub().watchers["run", run.pk, "", 0]
    browser.reads.clear()
    await say(source, "long", f.OutputReady("first", 0))
    await asyncio.wait_for(browser.stuck.wait(), PATIENCE)
    many = [f.InputReady(f"c{number:03}", "Bash", {}, True) for number in range(MAX_PARTS + 50)]
    await say(source, "long", *many)
    await until_true(lambda: watcher.slot.overflowed)
    browser.reads.set()
    await until_true(lambda: browser.has(f'data-call-id="{many[-1].call_id}"'))
    assert all(browser.has(f'data-call-id="{fact.call_id}"') for fact in many[-PAGE:])
    browser.leave_event.set()
    await asyncio.wait_for(serving, PATIENCE)


async def test_a_look_that_failed_keeps_nothing_from_anybody(
    signed_in: Client, a_run: Callable[..., Run], source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await sync_to_async(a_run)("shaky", f.InputStarted("c1", "Bash"))
    async with watching(signed_in, "/ws/runs/shaky/") as live_socket:
        await text_with(live_socket, 'data-state="input-streaming"')
        board, failed = hub.get_hub().boards["run", run.pk, "", 0], []

        def away(calls: Any) -> dict[str, str]:
            failed.extend(calls)
            monkeypatch.undo()
            raise OperationalError("the database is away")

        monkeypatch.setattr(board, "render_changed_cards", away)
        await say(source, "shaky", f.InputReady("c1", "Bash", {}, True))
        await text_with(live_socket, 'data-state="input-available"')
        assert failed


async def test_a_board_that_cannot_be_rendered_holds_up_no_other(
    signed_in: Client, a_run: Callable[..., Run], source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await sync_to_async(a_run)("broken", f.InputStarted("c1", "Bash"))
    await sync_to_async(a_run)("good", f.InputStarted("g1", "Bash"))

    def fail(*arguments: Any) -> Any:
        raise ZeroDivisionError

    async with watching(signed_in, "/ws/runs/good/") as good_socket:
        await text_with(good_socket, 'data-state="input-streaming"')
        broken_socket = socket(signed_in, "/ws/runs/broken/")
        assert (await broken_socket.connect())[0]
        await text_with(broken_socket, 'data-state="input-streaming"')
        board = hub.get_hub().boards["run", run.pk, "", 0]
        monkeypatch.setattr(board, "render_changed_cards", fail)
        await say(source, "broken", f.InputReady("c1", "Bash", {}, True))
        await text_with(broken_socket, 'data-state="input-available"')  # whole, since the change failed
        monkeypatch.setattr(board, "render_all", fail)
        await say(source, "broken", f.OutputReady("c1", 0))
        async with asyncio.timeout(PATIENCE):
            while (message := await broken_socket.receive_output(timeout=PATIENCE))["type"] != "websocket.close":
                pass
        assert message["code"] == hub.SERVER_ERROR
        await say(source, "good", f.InputReady("g1", "Bash", {}, True))
        await text_with(good_socket, 'data-state="input-available"')


async def test_a_hub_without_watchers_stops(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/me/") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        ours_now = hub.get_hub()
        assert ours_now._task is not None and doorbell._listeners
    async with asyncio.timeout(PATIENCE):
        while ours_now._task is not None or ours_now.boards or ours_now.watchers:
            await asyncio.sleep(0.02)


async def test_earlier_calls_of_a_run_are_no_news_for_a_new_watcher(
    signed_in: Client, a_run: Callable[..., Run], source: Any
) -> None:
    old = [f.InputReady(f"old{number}", "Bash", {}, True) for number in range(3)]
    run = await sync_to_async(a_run)("long", *old, f.RunEnded(outcome="ok"))
    with allow_log_writes():
        await Run.objects.filter(pk=run.pk).aupdate(updated_at=timezone.now() - timedelta(hours=1))
    async with watching(signed_in, "/ws/me/") as me:  # the hub is there, and knows nothing of runs that are over
        await me.receive_from(timeout=PATIENCE)
        key = ("run", run.pk, "", 0)
        async with watching(signed_in, "/ws/runs/long/") as live_socket:
            await text_with(live_socket, "old2")
            looked: list[str] = []
            board = hub.get_hub().boards[key]
            board.render_changed_cards = lambda calls: looked.extend(call.call_id for call in calls) or {}  # type: ignore[method-assign]
            await say(source, "long", f.InputReady("new", "Bash", {}, True))
            await until_true(lambda: "new" in looked)
            assert looked == ["new"]


async def test_an_approval_is_news_for_the_inbox_even_if_its_run_is_opened_meanwhile(
    signed_in: Client, a_call: Callable[..., ToolCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(signed_in, "/ws/me/?board=approvals") as inbox:
        await inbox.receive_from(timeout=PATIENCE)
        monkeypatch.setattr(doorbell, "_ring_locally", lambda runs: None)  # the ring comes late
        call = await sync_to_async(a_call)("approval-requested", run="asks")
        async with watching(signed_in, "/ws/runs/asks/") as live_socket:
            await text_with(live_socket, call.call_id)
            await text_with(inbox, f'data-call-id="{call.call_id}"')


@pytest.mark.usefixtures("frequent_checks")
async def test_a_lost_ring_costs_a_heartbeat(
    signed_in: Client, a_run: Callable[..., Run], source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sync_to_async(a_run)("quiet", f.InputStarted("c1", "Bash"))
    async with watching(signed_in, "/ws/runs/quiet/") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        monkeypatch.setattr(doorbell, "_ring_locally", lambda runs: None)
        await say(source, "quiet", f.InputReady("c1", "Bash", {}, True))
        await text_with(live_socket, 'data-state="input-available"')


@pytest.mark.usefixtures("frequent_checks")
async def test_runs_that_ring_do_not_hide_one_whose_ring_was_lost(
    signed_in: Client, a_run: Callable[..., Run], source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, quiet = [await sync_to_async(a_run)(name, f.InputStarted("c1", "Bash")) for name in ("busy", "quiet")]
    ring_here = doorbell._ring_locally
    monkeypatch.setattr(doorbell, "_ring_locally", lambda runs: ring_here(runs - {quiet.pk, -quiet.pk}))

    async def ring_on() -> None:
        while True:
            doorbell.ring({busy.pk})
            await asyncio.sleep(0.02)

    async with watching(signed_in, "/ws/runs/quiet/") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        ringing = asyncio.create_task(ring_on())
        await say(source, "quiet", f.InputReady("c1", "Bash", {}, True))
        await text_with(live_socket, 'data-state="input-available"')
        ringing.cancel()
