"""The live link: whole boards first, each revision rendered once, slow readers skip, and who may watch."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from dashboard.asgi import application
from dashboard.cards import rendering
from dashboard.cards.page_parts import MAX_PARTS
from dashboard.live import boards, changes, hub, queries
from dashboard.live.base_board import BoardNews
from dashboard.live.boards import BOARDS, StatusBoard
from dashboard.live.changes import ChangeReader
from dashboard.live.frames import Frame, FrameSlot, join_frames
from dashboard.live.run_board import RunBoard
from dashboard.live.sockets import is_own_origin
from dashboard.runs.run_cards import PAGE
from tests.support.browser_sockets import ORIGIN, close_code, socket, text_with, until_true, watching
from tests.support.gate_commands import RecordFacts, make_ballot
from tests.support.server import PATIENCE
from toolcards import doorbell, gate
from toolcards.core.calls import facts as f
from toolcards.gate.writer import committed_cards, group_commit
from toolcards.gate.writer.transaction import SMALL_TEXT
from toolcards.models import BreakGlass, Run, ToolCall
from toolcards.models.write_guard import allow_log_writes
from toolcards.transports import shutdown

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_rendered() -> None:
    rendering.card_cache.clear()


@pytest.fixture
def frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check what nothing rings for more often than a server does."""
    assert hub.AUDIT_SECONDS + changes.HEARTBEAT_SECONDS < 5 and boards.RECHECK_SECONDS <= 2
    monkeypatch.setattr(hub, "AUDIT_SECONDS", 0.1)
    monkeypatch.setattr(hub, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(changes, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(boards, "RECHECK_SECONDS", 0.1)


piece = f.InputDelta
say = sync_to_async(
    lambda source, run, *facts: group_commit.execute(RecordFacts(source, run, list(facts))), thread_sensitive=True
)


# ---------------------------------------------------------------- sockets


async def test_the_first_push_is_the_whole_board(signed_in: Client, a_call: Callable[..., ToolCall]) -> None:
    await sync_to_async(lambda: [a_call(call_id=f"c{n}", run="a/b") for n in range(3)])()
    async with watching(signed_in, "/ws/runs/a%2Fb/") as opened:
        first = await opened.receive_from(timeout=PATIENCE)
    assert re.findall(r'data-call-id="(c\d)"', first) == ["c0", "c1", "c2"] and 'id="run-head"' in first


async def test_each_change_is_pushed_with_its_state(signed_in: Client, a_run: Callable[..., Run], source: Any) -> None:
    await sync_to_async(a_run)("live", f.InputStarted("c1", "Bash"))
    async with watching(signed_in, "/ws/runs/live/") as opened:
        await text_with(opened, 'data-state="input-streaming"')
        await say(source, "live", f.InputDelta("c1", '{"command": "ls"'))
        assert "{&quot;command&quot;: &quot;ls&quot;" in await text_with(opened, "characters so far")
        await say(source, "live", f.InputReady("c1", "Bash", {"command": "ls"}, True))
        await text_with(opened, 'data-state="input-available"')
        await say(source, "live", f.OutputReady("c1", 0))
        await text_with(opened, 'data-state="output-available"')


async def test_many_changes_are_few_frames(signed_in: Client, a_run: Callable[..., Run], source: Any) -> None:
    await sync_to_async(a_run)("busy", f.InputStarted("c1", "Bash"))
    async with watching(signed_in, "/ws/runs/busy/") as opened:
        await opened.receive_from(timeout=PATIENCE)
        before, shown_text = rendering.card_cache.renders, asyncio.get_running_loop().time()
        for number in range(60):
            await say(source, "busy", f.InputDelta("c1", f"{number} "))
        frames = 1
        while "58 59" not in await opened.receive_from(timeout=PATIENCE):
            frames += 1
        looks = (asyncio.get_running_loop().time() - shown_text) / hub.TICK_SECONDS + hub.BURST
        assert frames <= looks and rendering.card_cache.renders - before <= looks


async def test_everybody_knows_how_many_wait(
    signed_in: Client, a_call: Callable[..., ToolCall], an_approver: Any
) -> None:
    async with watching(signed_in, "/ws/me/") as opened:
        assert 'data-waiting-count="0"' in await opened.receive_from(timeout=PATIENCE)
        call = await sync_to_async(a_call)("approval-requested")
        assert "Approval needed: bash" in await text_with(opened, 'data-waiting-count="1"')
        await sync_to_async(lambda: gate.vote(an_approver, make_ballot(call, "deny")))()
        await text_with(opened, 'data-waiting-count="0"')


async def test_the_kill_switch_is_said_on_every_open_page_and_taken_back(signed_in: Client) -> None:
    throw = sync_to_async(gate.set_kill_switch)
    async with watching(signed_in, "/ws/me/") as opened:
        assert "data-killswitch" not in await opened.receive_from(timeout=PATIENCE)
        await throw("ben", True, "a <b>drill</b>")
        result = await text_with(opened, "data-killswitch")
        assert "by ben" in result and "a &lt;b&gt;drill&lt;/b&gt;" in result and 'hx-target="#standing"' in result
        await throw("ben", False)
        assert "data-killswitch" not in await text_with(opened, 'hx-target="#standing"')


@pytest.mark.usefixtures("frequent_checks")
async def test_a_switch_thrown_where_no_ring_comes_from_is_seen_all_the_same(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(signed_in, "/ws/me/") as opened:
        await opened.receive_from(timeout=PATIENCE)
        monkeypatch.setattr(doorbell, "_ring_locally", lambda runs: None)
        await sync_to_async(gate.set_kill_switch)("another process", True)
        await text_with(opened, "data-killswitch")


@pytest.mark.usefixtures("frequent_checks")
async def test_break_glass_is_said_and_goes_when_its_time_is_over(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/me/") as opened:
        await opened.receive_from(timeout=PATIENCE)
        await sync_to_async(gate.break_glass)("ben", "a fire", 60)
        assert "a fire" in await text_with(opened, "data-breakglass")
        await BreakGlass.objects.aupdate(until=time.time())  # nothing rings for the clock
        assert "data-breakglass" not in await text_with(opened, 'hx-target="#standing"')


async def test_a_switch_rings_only_for_listeners_of_all_runs(db: None) -> None:
    async with doorbell.listen(doorbell.EVERY_RUN) as everybody, doorbell.listen(7) as one:
        await sync_to_async(gate.set_kill_switch)("ben", True)
        assert await everybody.wait(PATIENCE) == {doorbell.EVERY_RUN}
        assert not one._rung


async def test_all_approvals_ring_for_those_who_listen_to_all_of_them_only() -> None:
    async with doorbell.listen(doorbell.EVERY_APPROVAL) as approvals, doorbell.listen(doorbell.EVERY_RUN) as runs:
        doorbell.ring([7, doorbell.get_approvals_bell(8)])
        assert await approvals.wait(PATIENCE) == {-8}
        assert await runs.wait(PATIENCE) == {7}


async def test_a_request_for_approval_does_not_wait_for_the_tick(
    signed_in: Client, a_call: Callable[..., ToolCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "TICK_SECONDS", 10 * PATIENCE)
    async with watching(signed_in, "/ws/me/?board=approvals") as opened:
        await opened.receive_from(timeout=PATIENCE)
        for number in range(2 * hub.BURST):  # more than may follow each other at once
            call = await sync_to_async(a_call)("approval-requested", call_id=f"c{number}", run=f"run{number}")
            assert f'id="c-{call.public_id}"' in await text_with(opened, call.public_id)


@pytest.mark.parametrize("board", ["now", "approvals"])
async def test_what_waits_comes_and_stays_with_its_answer(
    signed_in: Client, a_call: Callable[..., ToolCall], an_approver: Any, board: str
) -> None:
    async with watching(signed_in, f"/ws/me/?board={board}") as opened:
        await opened.receive_from(timeout=PATIENCE)
        call = await sync_to_async(a_call)("approval-requested")
        assert 'hx-swap="place"' in await text_with(opened, 'value="approve"')
        await sync_to_async(lambda: gate.vote(an_approver, make_ballot(call, "deny")))()
        result = await text_with(opened, 'data-state="output-denied"')
        assert 'hx-swap="renew"' in result and 'value="approve"' not in result and "csrfmiddlewaretoken" not in result


async def test_the_calls_board_keeps_to_its_filters(signed_in: Client, a_call: Callable[..., ToolCall]) -> None:
    async with watching(signed_in, "/ws/me/?board=calls&tool=wanted") as opened:
        await opened.receive_from(timeout=PATIENCE)
        await sync_to_async(a_call)(call_id="no", tool="other")
        await sync_to_async(a_call)(call_id="yes", tool="wanted")
        assert 'data-call-id="no"' not in await text_with(opened, 'data-call-id="yes"')


async def test_the_runs_board_draws_its_rows_again(signed_in: Client, a_run: Callable[..., Run]) -> None:
    async with watching(signed_in, "/ws/me/?board=runs") as opened:
        await opened.receive_from(timeout=PATIENCE)
        await sync_to_async(a_run)("newest-run")
        await text_with(opened, "newest-run")


async def test_a_card_of_a_step_that_was_reset_goes(signed_in: Client, a_run: Callable[..., Run], source: Any) -> None:
    await sync_to_async(a_run)("again", f.StepStarted(), f.InputReady("c1", "Bash", {}, True, per_step=True))
    async with watching(signed_in, "/ws/runs/again/") as opened:
        await opened.receive_from(timeout=PATIENCE)
        await say(source, "again", f.StepReset())
        await text_with(opened, "data-removed")


# ---------------------------------------------------------------- who may watch


async def test_a_socket_without_a_sign_in_is_closed_with_its_code() -> None:
    async with watching(None, "/ws/me/") as opened:
        assert await close_code(opened) == 4401


async def test_who_has_no_role_may_not_watch(django_user_model: Any) -> None:
    client = Client()
    nobody = await sync_to_async(django_user_model.objects.create_user)("nobody", password="x")
    await sync_to_async(client.force_login)(nobody)
    async with watching(client, "/ws/me/") as opened:
        assert await close_code(opened) == 4403


async def test_a_socket_of_an_unknown_run_is_closed_with_its_code(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/runs/nothing/") as opened:
        assert await close_code(opened) == 4404


@pytest.mark.parametrize("origin", [b"", ORIGIN, b"https://evil.example"])
async def test_an_unknown_socket_address_has_its_own_close_code(origin: bytes) -> None:
    opened = socket(None, "/ws/agents/", origin)  # mistyped: it is neither the key nor the page that is wrong
    assert (await opened.connect(timeout=PATIENCE))[0]
    assert await close_code(opened) == 4404


@pytest.mark.usefixtures("frequent_checks")
@pytest.mark.parametrize("ending", ["sign out", "switch off", "new password", "lose the role"])
async def test_a_socket_ends_soon_after_its_right(signed_in: Client, ending: str) -> None:
    def end() -> None:
        person = get_user_model().objects.get(username="eve")
        if ending == "sign out":
            signed_in.post("/logout/")
        elif ending == "switch off":
            get_user_model().objects.filter(pk=person.pk).update(is_active=False)
        elif ending == "new password":
            person.set_password("another one entirely")
            person.save()
        else:
            person.groups.clear()

    path = "/ws/me/"
    async with watching(signed_in, path) as opened:
        await opened.receive_from(timeout=PATIENCE)
        await sync_to_async(end)()
        assert await close_code(opened) == (4403 if ending == "lose the role" else 4401)


async def test_a_server_that_stops_asks_the_page_to_reconnect(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/me/") as opened:
        await opened.receive_from(timeout=PATIENCE)
        shutdown.begin()
        assert await close_code(opened) == 1012


@pytest.mark.parametrize(
    ("origin", "host", "scheme", "fine"),
    [
        ("http://testserver", "testserver", "ws", True),
        ("http://testserver:80", "testserver", "ws", True),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "ws", True),
        ("http://127.0.0.1:9999", "127.0.0.1:8000", "ws", False),
        ("https://127.0.0.1:8000", "127.0.0.1:8000", "ws", False),
        ("http://localhost:8000", "127.0.0.1:8000", "ws", False),
        ("http://evil.example", "127.0.0.1:8000", "ws", False),
        ("http://evil.example", "evil.example", "ws", False),
        ("null", "127.0.0.1:8000", "ws", False),
        ("", "127.0.0.1:8000", "ws", False),
        ("http://127.0.0.1:x", "127.0.0.1:8000", "ws", False),
        ("http://[::1]:8000", "[::1]:8000", "ws", True),
        ("https://127.0.0.1", "127.0.0.1", "wss", True),
    ],
)
def test_only_our_own_pages_open_sockets(settings: Any, origin: str, host: str, scheme: str, fine: bool) -> None:
    settings.ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost", "[::1]"]
    assert is_own_origin(origin, host, scheme) is fine


async def test_a_foreign_page_is_refused_at_the_door(signed_in: Client) -> None:
    opened = socket(signed_in, "/ws/me/", origin=b"http://evil.example")
    assert (await opened.connect(timeout=PATIENCE))[0] is False


# ---------------------------------------------------------------- hub, frames, slots


def test_one_drawing_serves_everybody(a_call: Callable[..., ToolCall]) -> None:
    call = a_call()
    call = ToolCall.objects.select_related("run", "run__source").get(pk=call.pk)
    before = rendering.card_cache.renders
    boards = [RunBoard(call.run_id), BOARDS["calls"](""), BOARDS["calls"]("tool=bash")]
    for board in boards:
        assert board.render_changes(BoardNews([call], frozenset({call.run_id})))
    assert rendering.card_cache.renders - before == 1


def test_a_look_reads_of_a_call_what_the_orm_reads(a_call: Callable[..., ToolCall]) -> None:
    value, completed = a_call("approval-requested", call_id="a"), a_call("output-error", call_id="b")
    looks = ChangeReader()
    seen = {call.pk: call for call in looks._fetch({value.run_id, completed.run_id}, asked_only=False)}
    assert set(seen) == {value.pk, completed.pk}
    for call in ToolCall.objects.filter(pk__in=seen).select_related("run"):
        fields = [field.attname for field in ToolCall._meta.concrete_fields]
        assert [getattr(seen[call.pk], name) for name in fields] == [getattr(call, name) for name in fields]
        assert rendering.render_uncached(seen[call.pk]) == rendering.render_uncached(call)
    assert not looks._fetch({value.run_id, completed.run_id}, asked_only=False)


def test_looks_follow_what_streams_piece_by_piece_as_the_log_has_it(source: Any, a_run: Callable[..., Run]) -> None:
    size = 2 * SMALL_TEXT
    begun = {
        "long": "l" * size,
        "odd": "\ud800" * size,
        "late": "x" * size,
        "vast": "v" * (queries.MAX_CACHED_TEXT + 1),
    }
    run = a_run(
        "streams", *[fact for call in begun for fact in (f.InputStarted(call, "Bash"), piece(call, begun[call]))]
    )
    forgetful, mindful, lagged = ChangeReader(), ChangeReader(), set()
    for number in range(40):
        pieces = [piece("long", f"{number}, "), piece("odd", "\x00\ud800 "), piece("vast", f"{number} ")]
        pieces += [piece("late", f"{number}\x00")] if number > 30 else []
        group_commit.execute(RecordFacts(source, "streams", pieces))
        committed_cards.clear()  # as if another process had written them
        forgetful._texts._texts.clear()
        there = {call.pk: call for call in ToolCall.objects.all()}
        lagged |= {call.call_id for call in there.values() if call.text_seq < call.seq}
        for looks in (forgetful, mindful):
            seen = looks._fetch({run.pk}, asked_only=False)
            assert len(seen) == (4 if number == 0 or number > 30 else 3)
            assert [str(call.as_card().text) for call in seen] == [str(there[call.pk].as_card().text) for call in seen]
    assert lagged == set(begun)
    # The odd text is in its card, the vast one is not cached.
    assert set(mindful._texts._texts) == {(run.pk, 1), (run.pk, 3)}
    group_commit.execute(RecordFacts(source, "streams", [f.InputReady(call, "Bash", {}, True) for call in begun]))
    mindful._fetch({run.pk}, asked_only=False)
    assert not mindful._texts._texts


def test_a_look_asks_the_log_once_for_all_cards_of_a_run(
    source: Any, a_run: Callable[..., Run], django_assert_max_num_queries: Any
) -> None:
    names = [f"c{number}" for number in range(30)]
    run = a_run("wide", *[f.InputStarted(name, "Bash") for name in names])
    group_commit.execute(RecordFacts(source, "wide", [piece(name, "long " * SMALL_TEXT) for name in names]))
    looks = ChangeReader()
    for _ in range(3):
        group_commit.execute(RecordFacts(source, "wide", [piece(name, "a piece ") for name in names]))
        committed_cards.clear()  # as if another process had written them
        assert all(call.text_seq < call.seq for call in ToolCall.objects.all())
        with django_assert_max_num_queries(3):  # the calls, the run's name, the log
            seen = looks._fetch({run.pk}, asked_only=False)
            assert len(seen) == 30 and all(rendering.render_uncached(call) for call in seen)


def test_a_look_passes_over_calls_whose_run_is_gone(db: None) -> None:
    assert ChangeReader()._attach_runs([ToolCall(run_id=4711, ordinal=1)]) == []


async def test_the_latest_state_wins_for_who_is_slow() -> None:
    slot = FrameSlot()
    for text in ("one", "two", "three"):
        slot.offer(Frame({"card": text}))
    slot.offer(Frame({"other": "!"}))
    frame = await slot.take()
    assert frame is not None and frame.text == "three!"


async def test_the_same_frame_goes_to_everybody_who_is_up_to_date() -> None:
    frame, slots = Frame({"card": "x"}), [FrameSlot(), FrameSlot()]
    for slot in slots:
        slot.offer(frame)
    assert [await slot.take() for slot in slots] == [frame, frame]


async def test_a_watcher_far_behind_gets_the_whole_board() -> None:
    slot = FrameSlot()
    for number in range(MAX_PARTS + 10):
        slot.offer(Frame({str(number): "x"}))
        if slot.overflowed:
            break
    assert slot.overflowed and number <= MAX_PARTS


class SlowBrowser:
    """A browser that takes what it is sent only while `reads` is set."""

    def __init__(self, client: Client, path: str) -> None:
        self.scope = socket(client, path).scope
        self.reads, self.stuck, self.gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.reads.set()
        self.got: list[str] = []

    async def receive(self) -> dict[str, Any]:
        if not self.got:
            self.got.append("")
            return {"type": "websocket.connect"}
        await self.gone.wait()
        return {"type": "websocket.disconnect", "code": 1001}

    async def send(self, message: dict[str, Any]) -> None:
        if not self.reads.is_set():
            self.stuck.set()
            await self.reads.wait()
        self.got.append(message.get("text", ""))

    def has(self, expected: str) -> bool:
        return any(expected in text for text in self.got)


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
    browser.gone.set()
    await asyncio.wait_for(serving, PATIENCE)


async def test_a_look_that_failed_keeps_nothing_from_anybody(
    signed_in: Client, a_run: Callable[..., Run], source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await sync_to_async(a_run)("shaky", f.InputStarted("c1", "Bash"))
    async with watching(signed_in, "/ws/runs/shaky/") as opened:
        await text_with(opened, 'data-state="input-streaming"')
        board, failed = hub.get_hub().boards["run", run.pk, "", 0], []

        def away(calls: Any) -> dict[str, str]:
            failed.extend(calls)
            monkeypatch.undo()
            raise OperationalError("the database is away")

        monkeypatch.setattr(board, "render_changed_cards", away)
        await say(source, "shaky", f.InputReady("c1", "Bash", {}, True))
        await text_with(opened, 'data-state="input-available"')
        assert failed


def test_boards_join_into_one_frame() -> None:
    assert join_frames([Frame({"a": "1"}), Frame({"b": "2"})]).text == "12"


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


async def test_a_browser_that_takes_its_frames_waits_only_for_the_tick() -> None:
    slot = FrameSlot()
    for number in range(100):
        slot.offer(Frame({"card": str(number)}))
        taking = slot.take()
        with pytest.raises(StopIteration) as end:
            taking.send(None)  # returns at once: nothing to wait for
        assert end.value.value.text == str(number)


async def test_a_hub_without_watchers_stops(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/me/") as opened:
        await opened.receive_from(timeout=PATIENCE)
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
        async with watching(signed_in, "/ws/runs/long/") as opened:
            await text_with(opened, "old2")
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
        async with watching(signed_in, "/ws/runs/asks/") as opened:
            await text_with(opened, call.call_id)
            await text_with(inbox, f'data-call-id="{call.call_id}"')


@pytest.mark.usefixtures("frequent_checks")
async def test_a_lost_ring_costs_a_heartbeat(
    signed_in: Client, a_run: Callable[..., Run], source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sync_to_async(a_run)("quiet", f.InputStarted("c1", "Bash"))
    async with watching(signed_in, "/ws/runs/quiet/") as opened:
        await opened.receive_from(timeout=PATIENCE)
        monkeypatch.setattr(doorbell, "_ring_locally", lambda runs: None)
        await say(source, "quiet", f.InputReady("c1", "Bash", {}, True))
        await text_with(opened, 'data-state="input-available"')


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

    async with watching(signed_in, "/ws/runs/quiet/") as opened:
        await opened.receive_from(timeout=PATIENCE)
        ringing = asyncio.create_task(ring_on())
        await say(source, "quiet", f.InputReady("c1", "Bash", {}, True))
        await text_with(opened, 'data-state="input-available"', seconds=10)
        ringing.cancel()
