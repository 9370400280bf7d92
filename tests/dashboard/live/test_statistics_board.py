"""The live numbers of tools and agents: counted now and then, off the hub's thread, and sent as far as they changed."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from dashboard.live import statistics_board
from dashboard.live.base_board import BoardNews
from dashboard.live.boards import BOARDS
from dashboard.live.statistics_board import StatisticsBoard
from dashboard.runs import call_statistics
from dashboard.runs.call_statistics import CallStatistics, TableChoice
from tests.support.browser_sockets import text_with, watching
from tests.support.server import until
from toolcards.models import ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)
NEWS, NO_NEWS = BoardNews(runs=frozenset({1})), BoardNews()


@pytest.fixture(autouse=True)
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_board, "INTERVAL", 0.01)


@pytest.fixture
def held_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let counts wait until the event is set."""
    worker, event = ThreadPoolExecutor(1), threading.Event()
    worker.submit(event.wait)
    monkeypatch.setattr(statistics_board, "_worker", worker)
    yield event
    event.set()
    worker.shutdown()


def count_now(board: StatisticsBoard, news: BoardNews = NEWS) -> dict[str, str]:
    """Return the parts of the next count."""
    time.sleep(0.02)
    parts = dict(board.render_changes(news).parts)
    while board.pending_seconds < math.inf:
        parts |= board.render_changes(NO_NEWS).parts
    return parts


def read_numbers(parts: dict[str, str]) -> list[str]:
    return [" ".join(re.sub("<[^>]+>", " ", html).split()) for name, html in parts.items() if name != "footer"]


def test_rows_are_sent_when_their_numbers_changed(a_call: Callable[..., ToolCall]) -> None:
    a_call("output-available", tool="one", call_id="a")
    a_call("output-available", tool="two", call_id="b")
    board = StatisticsBoard("tools", "board=tools&range=all")
    assert [text.split()[:2] for text in read_numbers(count_now(board))] == [["1", "0"], ["1", "0"]]
    assert count_now(board) == {}
    a_call("output-error", tool="two", call_id="c")
    parts = count_now(board)
    assert [text.split()[:2] for text in read_numbers(parts)] == [["2", "1"]]
    assert "3 calls counted" in parts["footer"]


def test_a_newcomer_makes_the_next_count_send_all_rows(a_call: Callable[..., ToolCall]) -> None:
    a_call("output-available", tool="one", call_id="a")
    board = StatisticsBoard("tools", "")
    assert set(count_now(board)) == set(count_now_after_newcomer(board))


def count_now_after_newcomer(board: StatisticsBoard) -> dict[str, str]:
    assert board.render_all().parts == {}  # the page has its rows, and they are newer than the last count
    return count_now(board, NO_NEWS)


def test_a_row_whose_calls_are_too_old_now_is_sent_empty_once(
    a_call: Callable[..., ToolCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = a_call("output-available", tool="old", call_id="a")
    a_call("output-available", tool="new", call_id="b")
    board = StatisticsBoard("tools", "range=1h")
    assert len(count_now(board)) == 3
    with allow_log_writes():
        ToolCall.objects.filter(pk=old.pk).update(started_at=datetime.now(UTC) - timedelta(hours=2))
    parts = count_now(board)
    (row_id,) = parts.keys() - {"footer"}
    assert row_id == CallStatistics("old").row_id and "data-empty" in parts[row_id]
    assert read_numbers(parts) == ["0 0 — — 0 0 —"] and count_now(board) == {}
    monkeypatch.setattr(call_statistics, "MAX_ROWS", 1)
    assert count_now(board) == {}
    with allow_log_writes():
        ToolCall.objects.filter(pk=old.pk).update(started_at=datetime.now(UTC))
    a_call("output-available", tool="old", call_id="c")
    assert "data-empty" not in "".join(count_now(board).values())  # the other row is left out, not empty


def test_nothing_is_counted_without_news(a_call: Callable[..., ToolCall]) -> None:
    a_call("output-available", tool="one")
    board = StatisticsBoard("tools", "")
    assert count_now(board, NO_NEWS) == {} and board.pending_seconds == math.inf


def test_counts_begin_an_interval_apart_and_no_look_waits_for_one(
    a_call: Callable[..., ToolCall], held_worker: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_call("output-available", tool="one")
    board = StatisticsBoard("tools", "")
    assert [board.render_changes(NEWS).parts for _ in range(3)] == [{}, {}, {}] and board.pending_seconds < 1
    monkeypatch.setattr(statistics_board, "INTERVAL", 3600)
    held_worker.set()
    parts = until(lambda: board.render_changes(NEWS).parts)
    assert len(parts) == 2
    assert board.render_changes(NEWS).parts == {} and board.pending_seconds == math.inf


@pytest.mark.parametrize("error", [OperationalError("away"), ValueError("odd")])
def test_a_count_that_failed_is_repeated_and_disturbs_no_other_page(
    a_call: Callable[..., ToolCall], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    failures = iter([error, error])

    def fail_twice(choice: TableChoice) -> Any:
        if failure := next(failures, None):
            raise failure
        return compute(choice)

    a_call("output-available", tool="one")
    board, compute = StatisticsBoard("tools", ""), TableChoice.compute
    monkeypatch.setattr(TableChoice, "compute", fail_twice)
    board.render_changes(NEWS)
    assert len(until(lambda: board.render_changes(NO_NEWS).parts)) == 2


def test_every_row_of_the_page_has_the_id_that_its_numbers_are_sent_to(
    client: Client, a_person: Callable[..., Any], a_call: Callable[..., ToolCall]
) -> None:
    client.force_login(a_person("admin", "anna"))
    for number, tool in enumerate(("<b>'\"&", "\u202eone", "one ", "one")):
        a_call("output-available", tool=tool, call_id=f"c{number}")
    for page in ("tools", "agents"):
        html = client.get(f"/calls/{page}/?sort=p95&range=1h").content.decode()
        (query,) = re.findall(r'hx-ws:connect="/ws/me/\?([^"]*)"', html)
        board = BOARDS[page](query.replace("&amp;", "&"))
        assert isinstance(board, StatisticsBoard) and board.choice == TableChoice(page, "1h", "p95")
        parts = count_now(board)
        assert set(re.findall(r'<tr id="([^"]+)"', html)) == set(parts) - {"footer"}
        assert "/policy/rules/new/" not in "".join(parts.values()) and "<b>" not in "".join(parts.values())


async def test_a_socket_of_the_page_gets_the_numbers(signed_in: Client, a_call: Callable[..., ToolCall]) -> None:
    from asgiref.sync import sync_to_async

    await sync_to_async(a_call)("output-available", tool="one", call_id="a")
    async with watching(signed_in, "/ws/me/?board=tools&range=24h&sort=calls") as live_socket:
        await text_with(live_socket, "1 call counted")
        await sync_to_async(a_call)("output-available", tool="one", call_id="b")
        assert "<tr id=" in await text_with(live_socket, "2 calls counted")
