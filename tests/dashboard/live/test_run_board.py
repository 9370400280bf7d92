"""The board of a run: a page that was just drawn is sent only what is newer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from dashboard.live import base_board
from dashboard.live.base_board import BoardNews
from dashboard.live.run_board import RunBoard
from tests.support.browser_sockets import watching
from tests.support.gate_commands import RecordFacts
from tests.support.server import PATIENCE
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
CARD_PATTERN = re.compile(r'data-call-id="(c\d)"|<div class="body [a-z]+">(\w+)')


async def read_first(client: Client, address: str) -> list[str]:
    """Return the calls and texts of the first message, and the header."""
    async with watching(client, address) as live_socket:
        first = await live_socket.receive_from(timeout=PATIENCE)
    return [call or text for call, text in CARD_PATTERN.findall(first)] + ["head"] * first.count('id="run-head"')


async def test_the_socket_of_a_page_sends_what_came_after_the_page_was_drawn(
    signed_in: Client, a_run: Callable[..., Run], source: Any
) -> None:
    facts = f.InputReady("c1", "Read", {}, True), f.InputReady("c2", "Read", {}, True), f.TextDelta(text="Hello")
    drawn_seq = (await sync_to_async(a_run)("drawn", *facts)).seq
    page = await sync_to_async(lambda: signed_in.get("/runs/drawn/").content.decode())()
    address = re.search(r'hx-ws:connect="(/ws/runs/drawn/[^"]*)"', page)[1].replace("&amp;", "&")
    assert f"since={drawn_seq}" in address
    assert await read_first(signed_in, address) == ["head"]
    assert await read_first(signed_in, "/ws/runs/drawn/") == ["c1", "c2", "Hello", "head"]
    more = [f.OutputReady("c1", 0), f.InputReady("c3", "Read", {}, True)]
    await sync_to_async(lambda: group_commit.execute(RecordFacts(source, "drawn", more)))()
    assert await read_first(signed_in, address) == ["c1", "c3", "Hello", "head"]  # the text has ended
    for newer in ("999999", "x", "-1"):
        assert "head" in await read_first(signed_in, f"/ws/runs/drawn/?since={newer}")


def test_text_before_a_new_call_comes_with_it(a_run: Callable[..., Run], source: Any) -> None:
    run = a_run("said", f.InputReady("c1", "Read", {}, True))
    board = RunBoard(run.pk)
    board.render_all()
    board.render_changes(BoardNews(runs=frozenset({run.pk})))  # the throttled parts are drawn again in a second
    more = [f.TextDelta(text="Hello"), f.InputReady("c2", "Read", {}, True)]
    group_commit.execute(RecordFacts(source, "said", more))
    calls = list(ToolCall.objects.filter(run=run, call_id="c2").select_related("run", "run__source"))
    frame = board.render_changes(BoardNews(calls=calls, runs=frozenset({run.pk})))
    assert [call or text for call, text in CARD_PATTERN.findall(frame.text)] == ["Hello", "c2"]


def test_a_delta_is_sent_as_its_piece_and_the_header_only_when_it_shows_something_else(
    a_run: Callable[..., Run], source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_board, "THROTTLE_SECONDS", 0.0)
    run = a_run("growing", f.InputStarted("c1", "Write"), f.InputDelta("c1", "one "))
    board = RunBoard(run.pk)
    board.render_all()

    def render(*facts: Any) -> dict[str, str]:
        group_commit.execute(RecordFacts(source, "growing", list(facts)))
        calls = list(ToolCall.objects.filter(run=run).select_related("run", "run__source"))
        return dict(board.render_changes(BoardNews(calls=calls, runs=frozenset({run.pk}))).parts)

    assert "one two " in render(f.InputDelta("c1", "two "))["1"]
    parts = render(f.InputDelta("c1", "three"))
    assert [(len(part) < 300, part.count("three"), part.count("two")) for part in parts.values()] == [(True, 1, 0)]
    board.render_all()  # for one more watcher: the others go on with pieces
    assert list(render(f.InputDelta("c1", "!"))) == ["1+6"]
    parts = render(f.InputReady("c1", "Write", {}, True))
    assert parts.keys() == {"1", "head"} and 'data-state="input-available"' in parts["1"]


def test_a_watcher_who_came_between_two_headers_is_sent_the_next_one(a_run: Callable[..., Run], source: Any) -> None:
    run = a_run("headed", f.InputReady("c1", "Read", {}, True))
    board = RunBoard(run.pk, "head")
    assert [name for _ in range(2) for name in (board.render_throttled() or {"": ""})] == ["head", ""]
    group_commit.execute(RecordFacts(source, "headed", [f.InputReady("c2", "Read", {}, True)]))
    assert "2 calls" in board.render_all().parts["head"]
    assert "2 calls" in board.render_throttled()["head"] and not board.render_throttled()
