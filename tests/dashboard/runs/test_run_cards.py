"""What the page of a run holds: the newest calls as cards, older ones as lines, and what waits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard.runs import run_cards
from dashboard.runs.narration import Narration
from dashboard.runs.run_cards import CARDS, PAGE, WAITING_CARDS, build_run_page, choose_lines
from toolcards.core.calls import facts as f
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db


def completed(call_id: str) -> list[Any]:
    return [f.InputReady(call_id, "Read", {"path": call_id}, True), f.OutputReady(call_id, "fine")]


def make_calls(count: int) -> list[Any]:
    return [fact for number in range(count) for fact in completed(f"c{number:03}")]


def count_elements(html: str) -> int:
    return len(re.findall("<[a-z]", html))


def test_the_newest_calls_are_cards_and_older_ones_lines(a_run: Callable[..., Run]) -> None:
    page = build_run_page(a_run("long", *make_calls(100)))
    assert [card.ordinal for card in page.cards] == list(range(101 - PAGE, 101))
    assert [card.is_line for card in page.cards] == [True] * (PAGE - CARDS) + [False] * CARDS
    assert page.older == 101 - PAGE
    earlier = build_run_page(page.cards[0].call.run, before=page.older)
    assert [card.ordinal for card in earlier.cards] == list(range(1, page.older)) and earlier.older == 0


def test_a_short_run_has_no_lines_and_an_empty_one_nothing(a_run: Callable[..., Run]) -> None:
    page = build_run_page(a_run("short", *make_calls(CARDS)))
    assert len(page.cards) == CARDS and not any(card.is_line for card in page.cards) and page.older == 0
    assert build_run_page(a_run("none")).cards == []


def test_what_waits_longest_stays_a_card(a_run: Callable[..., Run]) -> None:
    a_run("long", *make_calls(60))
    calls = list(ToolCall.objects.order_by("ordinal"))
    for call in calls[5:30]:
        call.waiting = True
    lines = choose_lines(calls)
    assert not lines & {call.ordinal for call in calls[5 : 5 + WAITING_CARDS]}
    assert {call.ordinal for call in calls[5 + WAITING_CARDS : 30]} < lines
    calls[-1].removed = True
    assert calls[-CARDS - 1].ordinal not in choose_lines(calls)


def test_text_takes_the_room_of_calls(a_run: Callable[..., Run]) -> None:
    facts = [fact for n in range(60) for fact in (f.TextDelta(text=f"before {n}"), *completed(f"c{n}"))]
    run, shown_cards = a_run("wordy", *facts), []
    texts, before = Narration(run.pk), 0
    texts.read()
    for _ in range(5):
        page = build_run_page(run, texts.blocks.values(), before=before)
        assert len(page.cards) + run_cards.BLOCK_LINES * len(page.blocks) <= PAGE + 1
        shown_cards[:0] = [
            item.ordinal if isinstance(item, run_cards.RunCard) else 0 for item in run_cards.interleave(page)
        ]
        before = page.older
        if not before:
            break
    assert [ordinal for ordinal in shown_cards if ordinal] == list(range(1, 61)) and shown_cards.count(0) == 60


def test_text_alone_is_bounded_and_leaves_the_newest_call(a_run: Callable[..., Run]) -> None:
    many = [f.TextDelta(text="x", channel="text" if n % 2 else "reasoning") for n in range(300)]
    run = a_run("talk", *make_calls(3), *many)
    texts = Narration(run.pk)
    texts.read()
    page = build_run_page(run, texts.blocks.values())
    assert len(page.blocks) == run_cards.MAX_BLOCKS and [card.ordinal for card in page.cards] == [3] and page.older == 3
    talk = a_run("only talk", *many)
    texts = Narration(talk.pk)
    texts.read()
    assert len(build_run_page(talk, texts.blocks.values()).blocks) == run_cards.MAX_BLOCKS


def test_the_page_of_a_long_run_has_few_elements(signed_in: Client, a_run: Callable[..., Run]) -> None:
    a_run("long", *make_calls(200))
    assert count_elements(signed_in.get("/runs/long/").content.decode()) < 1_500


def test_a_line_opens_by_the_card_of_its_call(signed_in: Client, a_run: Callable[..., Run]) -> None:
    run = a_run("long", *make_calls(2))
    answer = signed_in.get(f"/calls/{run.pk}-1/card/")
    html = answer.content.decode()
    assert answer.status_code == 200 and html.startswith("<article ") and "data-line" not in html
    assert signed_in.get(f"/calls/{run.pk}-9/card/").status_code == 404
    assert signed_in.post(f"/calls/{run.pk}-1/card/").status_code == 405
