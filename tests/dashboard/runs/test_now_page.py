"""The Now page says what is known: an unknown end is no failure, and a missing reason is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone

from dashboard.runs.now_page import (
    StartedCall,
    TileOrder,
    build_now_parts,
    count_by_minute,
    count_started_calls,
    find_failed_calls,
)
from toolcards import demo
from toolcards.core.calls import facts as f
from toolcards.models import Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db


def find_labels(html: str) -> list[str]:
    return re.findall(r'class="statebar [^"]*"[^>]*aria-label="([^"]*)"', html)


def test_a_call_without_a_result_is_not_counted_as_failed(viewer: Client, a_run: Callable[..., Run]) -> None:
    calls = [f.InputReady(f"c{n}", "Read", {"n": n}, True) for n in range(3)]
    a_run("lost", *calls, f.OutputFailed("c0", "it broke"), f.RunEnded(outcome="truncated"))
    html = viewer.get("/").content.decode()
    assert find_labels(html) == ["Failed 1, No result 2", "Failed 1, No result 2"]  # the last hour, and the run
    assert find_labels(viewer.get("/runs/").content.decode()) == ["Failed 1, No result 2"]
    rows = html.split('id="minutes-table"')[1].split("</details>")[0]
    assert re.findall(r'<td class="num">(\d+)</td>', rows) == [
        "3",
        "3",
        "0",
        "0",
        "1",
    ]  # allowed, asked, denied, failed


def test_an_active_run_counts_its_calls_without_a_result(viewer: Client, a_run: Callable[..., Run]) -> None:
    calls = [f.InputReady(f"c{n}", "Read", {"n": n}, True) for n in range(2)]
    a_run("going", *calls, f.OutputFailed("c0", "it broke"), f.CallClosed("c1", "aborted"))
    assert find_labels(viewer.get("/runs/").content.decode()) == ["Failed 1, No result 1"]


@pytest.mark.parametrize(
    ("fact", "words"),
    [(f.OutputFailed("c", ""), "No error message given"), (f.OutputDenied("c", ""), "No reason given")],
)
def test_a_missing_reason_is_named(viewer: Client, a_run: Callable[..., Run], fact: Any, words: str) -> None:
    a_run("r", f.InputReady("c", "Read", {}, True), fact)
    assert ToolCall.objects.get().finished_at and words in viewer.get("/").content.decode()


def test_a_failure_is_listed_without_the_colors_of_its_error(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("r", f.InputReady("c", "Read", {}, True), f.OutputFailed("c", "\x1b[31mNo such\x1b[0m\n file"))
    assert ">No such file<" in viewer.get("/").content.decode()
    assert "U+001B" not in viewer.get(f"/calls/{ToolCall.objects.get().public_id}/").content.decode()


def test_calls_are_counted_by_what_was_decided_before_they_ran() -> None:
    now = timezone.now()
    calls = [StartedCall(now, "output-available", is_gated=False), StartedCall(now, "output-error", is_gated=False)]
    calls += [StartedCall(now, "output-denied", is_gated=True), StartedCall(now, "output-denied", is_gated=False)]
    bar = count_by_minute([*calls, StartedCall(None, "output-error", is_gated=False)], now)[-1]
    assert {part.effect: part.count for part in bar.parts} == {"allow": 2, "ask": 1, "deny": 1}
    assert (bar.calls, bar.failed) == (4, 1)
    assert [part.y for part in bar.parts] == [0.0, 24.0, 36.0] and bar.parts[-1].height == 12.0


def test_a_tile_keeps_its_place_until_its_run_has_ended_and_another_begins() -> None:
    order = TileOrder()
    assert order.arrange([], [9, 8, 7], [], []) == [7, 8, 9]
    assert order.arrange([], [9, 7], [], [8]) == [7, 8, 9]  # an ended run stays
    assert order.arrange([], [16, 15, 14, 13, 12, 9, 7], [], [8]) == [7, 8, 9, 12, 13, 14, 15, 16]
    assert order.arrange([], [17, 16, 15, 14, 13, 12, 9, 7], [], [8]) == [7, 17, 9, 12, 13, 14, 15, 16]
    running = [18, 17, 16, 15, 14, 13, 12, 9, 7]
    assert order.arrange([], running, [], [8]) == [7, 17, 9, 12, 13, 14, 15, 16]  # none has ended
    assert order.arrange([], [18], [], []) == [18]


def test_a_tile_whose_run_is_gone_is_filled_and_no_other_moves() -> None:
    order = TileOrder()
    ended_runs = list(range(20, 4, -1))
    assert order.arrange([], [], [], ended_runs) == [13, 14, 15, 16, 17, 18, 19, 20]  # the newest
    assert order.arrange([], [], [], [22, 21, *ended_runs[:6]]) == [21, 22, 15, 16, 17, 18, 19, 20]
    assert order.arrange([], [23], [], [22, 21, *ended_runs[:5]]) == [21, 22, 23, 16, 17, 18, 19, 20]
    assert order.arrange([], [], [], [18, 16]) == [16, 18]  # the others were deleted


def test_a_run_that_waits_takes_a_tile_in_front_and_moves_one_other() -> None:
    order = TileOrder()
    assert order.arrange([], [8, 7, 6, 5, 4, 3, 2, 1], [], []) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert order.arrange([6], [8, 7, 5, 4, 3, 2, 1], [], []) == [6, 2, 3, 4, 5, 1, 7, 8]
    assert order.arrange([20, 6], [8, 7, 5, 4, 3, 2, 1], [], []) == [6, 20, 3, 4, 5, 1, 7, 2]  # no room for 8
    assert order.arrange([20], [8, 7, 6, 5, 4, 3, 2, 1], [], []) == [20, 6, 3, 4, 5, 1, 7, 2]


def test_no_run_that_waits_is_hidden_by_others_and_failed_ones_go_before_finished_ones() -> None:
    order = TileOrder()
    assert order.arrange([], list(range(30, 10, -1)), [], []) == list(range(11, 19))
    waiting = [5, 4, 3, 2, 1]
    assert set(order.arrange(waiting, list(range(30, 10, -1)), [], [])[:5]) == set(waiting)
    tile_runs = order.arrange([], [9], [8, 3], [17, 16, 15, 14, 13, 12, 11, 10])
    assert {9, 8, 3} <= set(tile_runs) and len(tile_runs) == 8


def test_the_first_page_shows_each_run_with_its_current_call(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("going", f.InputReady("c1", "Bash", {"command": "make test"}, True))
    html = viewer.get("/").content.decode()
    assert "1 active" in html and "make test" in html.split('class="tile"')[1].split("</li>")[0]


def test_calls_that_the_database_counts_by_minute_are_those_of_each_call(a_run: Callable[..., Run]) -> None:
    now = timezone.now()
    moments = [now.timestamp() - 7 * 60 * number for number in range(12)]  # the last ones are older than an hour
    facts: list[Any] = []
    for number in range(24):
        facts.append(f.InputReady(f"c{number}", "Read", {}, True))
        facts += [f.OutputFailed(f"c{number}", "it broke")] if number % 3 else []
    a_run("r", *facts)
    with allow_log_writes():
        for number, at in enumerate(moments * 2):
            ToolCall.objects.filter(call_id=f"c{number}").update(started_at=datetime.fromtimestamp(at, UTC))
    since = now - timedelta(hours=1)
    each = [
        StartedCall(call.started_at, call.state, call.requested_at is not None)
        for call in ToolCall.objects.filter(started_at__gte=since)
    ]
    minute_counts = count_started_calls(since)
    assert sum(call.calls for call in minute_counts) == len(each) == 18
    assert [(bar.calls, bar.failed) for bar in count_by_minute(minute_counts, now)] == [
        (bar.calls, bar.failed) for bar in count_by_minute(each, now)
    ]


def test_the_newest_failures_and_denials_are_listed_together(a_run: Callable[..., Run]) -> None:
    facts: list[Any] = []
    for number in range(14):
        failed = f.OutputFailed(f"c{number}", "it broke") if number % 2 else f.OutputDenied(f"c{number}", "no")
        facts += [f.InputReady(f"c{number}", "Read", {}, True), failed]
    a_run("r", *facts, f.InputReady("open", "Read", {}, True), f.CallClosed("open", "aborted"))
    assert [call.call_id for call in find_failed_calls()] == ["c13", "c12", "c11", "c10", "c9"]


def test_an_hour_has_sixty_bars() -> None:
    bars = count_by_minute([], timezone.now())
    assert len(bars) == 60 and not any(bar.calls for bar in bars)


def a_long_run(a_run: Callable[..., Run], calls: int) -> None:
    facts = [f.InputReady(f"c{n}", "Read", {"n": n}, True) for n in range(1, calls + 1)]
    a_run("long", *facts, f.OutputFailed("c5", "it broke"), f.OutputReady("c6", 1))


def test_calls_per_minute_can_be_read_as_a_table(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_long_run(a_run, 7)
    html = viewer.get("/").content.decode()
    table = html.split('id="minutes-table"')[1].split("</details>")[0]
    numbers = [int(entry) for entry in re.findall(r'<td class="num">(\d+)</td>', table)]
    assert (sum(numbers[::5]), sum(numbers[4::5])) == (7, 1)  # calls, failed


def test_the_page_says_that_it_is_a_demo_until_an_own_agent_comes(a_run: Callable[..., Run], source: Source) -> None:
    assert not build_now_parts()["is_demo"]
    a_run("recorded", source=Source.objects.create(name=demo.SOURCE))
    assert build_now_parts()["is_demo"]
    html = render_to_string("now/_now.html", build_now_parts())
    assert "This is a demo." in html and "connect claude-code" in html
    a_run("own", source=source)
    assert "This is a demo." not in render_to_string("now/_now.html", build_now_parts())
