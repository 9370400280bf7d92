"""The pages of runs: in which order they show calls, and what they offer."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

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
