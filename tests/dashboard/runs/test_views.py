"""The pages of runs: in which order they show calls, and what they offer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard.runs import views
from dashboard.runs.narration import Narration
from dashboard.runs.views import CARDS, PAGE, WAITING_CARDS, build_run_page, choose_lines
from toolcards.core.calls import facts as f
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db


PAGES = ["/", "/runs/", "/calls/", "/runs/run-1/", "/runs/run-1/?tab=timeline"]


@pytest.mark.parametrize("page", PAGES)
def test_who_is_not_signed_in_is_sent_to_sign_in(client: Client, page: str) -> None:
    answer = client.get(page)
    assert answer.status_code == 302 and answer.headers["Location"].startswith("/login/?next=/")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_the_call_or_its_run_and_how_many_wait(
    viewer: Client, a_call: Callable[..., ToolCall], page: str
) -> None:
    a_call("approval-requested", tool="launch")
    answer = viewer.get(page)
    html = answer.content.decode()
    assert answer.status_code == 200 and ("launch" in html or "run-1" in html)
    assert 'data-waiting-count="1"' in html and "<title>(1) " in html


def test_nothing_waits_and_the_title_is_plain(viewer: Client) -> None:
    assert "<title>Now · Toolcards</title>" in viewer.get("/").content.decode()


def test_an_empty_installation_says_what_to_do(viewer: Client) -> None:
    html = viewer.get("/").content.decode()
    assert "Connect an agent" in html and "manage.py demo" in html


@pytest.mark.parametrize(
    "name", ["a/b", "a/../b", "x?y#z", "ünïcode 日本", "with space", '"quotes"', "<b>", "50%25", "a//b"]
)
def test_a_run_may_be_called_anything(viewer: Client, a_call: Callable[..., ToolCall], name: str) -> None:
    answer = viewer.get(a_call(run=name).run.url)
    assert answer.status_code == 200 and answer.content.decode().count("<article") == 1


def test_the_run_page_has_one_article_per_call_in_order(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    for number in range(3):
        a_call(call_id=f"c{number}")
    html = viewer.get("/runs/run-1/").content.decode()
    assert html.count("<article") == 3 and re.findall(r'data-call-id="(\w+)"', html) == ["c0", "c1", "c2"]
    assert 'hx-ws:connect="/ws/runs/run-1/?source=an+agent&amp;since=' in html


def test_a_long_run_shows_its_newest_calls_and_links_to_older_ones(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("long", *(f.InputReady(f"c{n:03}", "Read", {"n": n}, True) for n in range(230)))
    html = viewer.get("/runs/long/").content.decode()
    assert html.count("<article") == 80 and 'data-call-id="c229"' in html and 'data-call-id="c149"' not in html
    assert 'href="/runs/long/?source=an+agent&amp;before=151"' in html
    oldest = viewer.get("/runs/long/?before=31").content.decode()
    assert oldest.count("<article") == 30 and 'data-call-id="c000"' in oldest and "data-frozen" in oldest
    assert "Older calls" not in oldest


def test_a_run_without_calls_says_so(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("empty")
    assert "made no tool calls" in viewer.get("/runs/empty/").content.decode()


@pytest.mark.parametrize("page", ["/runs/nothing/", "/calls/9-9/", f"/calls/{10**20}-1/", "/nothing/"])
def test_what_is_not_there_is_a_readable_404(viewer: Client, page: str) -> None:
    answer = viewer.get(page)
    assert answer.status_code == 404 and "Page not found" in answer.content.decode()


def test_runs_are_found_by_status_and_agent(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("over", f.RunEnded())
    a_run("going", f.InputStarted("c", "Read"))
    assert "over" not in viewer.get("/runs/?status=running").content.decode().split("<tbody")[1]
    assert "going" in viewer.get("/runs/?status=running&agent=bot").content.decode().split("<tbody")[1]


def test_only_an_active_run_offers_to_follow_new_calls(viewer: Client, a_run: Callable[..., Run]) -> None:
    a_run("open", f.InputStarted("c", "bash"))
    a_run("over", f.InputStarted("c", "bash"), f.RunEnded())
    assert "data-follow" in viewer.get("/runs/open/").content.decode()
    assert "data-follow" not in viewer.get("/runs/over/").content.decode()


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
        assert len(page.cards) + views.BLOCK_LINES * len(page.blocks) <= PAGE + 1
        shown_cards[:0] = [item.ordinal if isinstance(item, views.RunCard) else 0 for item in views.interleave(page)]
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
    assert len(page.blocks) == views.MAX_BLOCKS and [card.ordinal for card in page.cards] == [3] and page.older == 3
    talk = a_run("only talk", *many)
    texts = Narration(talk.pk)
    texts.read()
    assert len(build_run_page(talk, texts.blocks.values()).blocks) == views.MAX_BLOCKS


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
