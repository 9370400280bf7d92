"""Two sources with one run name are two runs: with two addresses, and nowhere shown for each other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from dashboard.cards import rendering
from tests.support.browser_sockets import close_code, socket, text_with, watching
from tests.support.cards import a_card, call_of
from tests.support.gate_commands import RecordFacts, make_ballot
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import ToolCallState
from toolcards.gate.writer import group_commit
from toolcards.models import AgentKey, Delivery, Grant, Source, ToolCall, Webhook
from toolcards.notifications import subscriptions

pytestmark = pytest.mark.django_db(transaction=True)
NAME = "release/7"


def ask(source: Source, target: str, **more: Any) -> ToolCall:
    """Have the source ask for a call with that target in the run; return the call."""
    gate.decide(source, gate.DecisionRequest(run=NAME, call_id="c", tool="deploy", args={"target": target}, **more))
    return ToolCall.objects.select_related("run__source").get(run__source=source, run__name=NAME)


@pytest.fixture
def twin(db: None) -> Source:
    return AgentKey.objects.issue("a twin")[0].source


@pytest.fixture
def both(policy: Callable[..., Any], source: Source, twin: Source) -> tuple[ToolCall, ToolCall]:
    """A waiting call of the victim, and one of the impostor that came later."""
    policy({"default": "ask"})
    return ask(source, "REAL"), ask(twin, "IMPOSTOR")


@pytest.fixture
def viewer(client: Client, a_person: Callable[..., Any]) -> Client:
    client.force_login(a_person("admin", "vera"))
    return client


def links(html: str) -> list[str]:
    """The addresses of pages and sockets of runs, as a browser reads them."""
    return [unescape(link) for link in re.findall(r'(?:href|hx-ws:connect|value)="((?:/ws)?/runs/[^"?]+/[^"]*)"', html)]


def main_of(html: str) -> str:
    """The page without its navigation, which names the newest question of all."""
    return html.split("<main")[1].split("</main>")[0]


def test_each_run_has_an_address_that_shows_its_own_calls(viewer: Client, both: tuple[ToolCall, ToolCall]) -> None:
    rows = [link for link in links(viewer.get("/runs/").content.decode()) if "release" in link]
    assert len(rows) == len(set(rows)) == 2
    for call, own, other in ((both[0], "REAL", "IMPOSTOR"), (both[1], "IMPOSTOR", "REAL")):
        html = main_of(viewer.get(call.run.url).content.decode())
        assert call.run.url in rows and own in html and other not in html
        for tab in ("timeline", "steps"):
            html = main_of(viewer.get(f"{call.run.url}&tab={tab}").content.decode())
            assert call.run.source.name in html and other not in html


def test_the_column_of_a_run_s_name_names_its_source(viewer: Client, both: tuple[ToolCall, ToolCall]) -> None:
    cells = re.findall(r"<td>(.*?)</td>", viewer.get("/runs/").content.decode(), re.DOTALL)
    for call in both:
        (cell,) = [cell for cell in cells if call.run.url in links(cell)]
        assert f"of {call.run.source.name}<" in cell


def test_a_grant_for_a_run_names_the_run_s_source(
    viewer: Client, both: tuple[ToolCall, ToolCall], a_person: Callable[..., Any]
) -> None:
    person = a_person("approver", "ann")
    for call in both:
        gate.vote(person, replace(make_ballot(call, "approve"), grant={"kind": "run"}))
    rows = viewer.get("/policy/grants/").content.decode().split("<tr data-grant")[1:]
    assert len(rows) == 2
    for call in both:
        (row,) = [row for row in rows if call.run.url in links(row)]
        assert f"of {call.run.source.name}<" in row


def test_an_address_without_a_source_lists_the_runs_each_with_its_own_newest_call(
    viewer: Client, both: tuple[ToolCall, ToolCall]
) -> None:
    answer = viewer.get("/runs/release%2F7/")
    html = main_of(answer.content.decode())
    assert answer.status_code == 200 and "<article" not in html
    assert links(html) == [both[1].run.url, both[0].run.url]
    for call, own in zip(both, ("REAL", "IMPOSTOR"), strict=True):
        (row,) = [row for row in html.split("<tr>")[1:] if call.run.source.name in row]
        assert own in row and f"/calls/{call.public_id}/" in row


def test_an_address_with_a_source_that_has_no_such_run_shows_no_other_one(
    viewer: Client, both: tuple[ToolCall, ToolCall]
) -> None:
    answer = viewer.get("/runs/release%2F7/?source=gone")
    html = main_of(answer.content.decode())
    assert answer.status_code == 404 and "The source gone has no run" in html and "<article" not in html
    assert len(links(html)) == 2
    assert viewer.get("/runs/nothing/?source=gone").status_code == 404


def test_a_name_that_one_source_uses_needs_no_source(viewer: Client, policy: Any, source: Source) -> None:
    policy({"default": "ask"})
    ask(source, "REAL")
    assert "REAL" in viewer.get("/runs/release%2F7/").content.decode()


def pages_of(call: ToolCall) -> list[str]:
    ask_id = call.as_card().approval
    assert ask_id is not None
    return [
        "/", "/runs/", "/runs/?source=a+twin", "/calls/", "/calls/?q=release", "/approvals/", "/approvals/history/",
        call.run.url, *(f"{call.run.url}&tab={tab}" for tab in ("timeline", "timeline&around=1", "steps")),
        "/runs/release%2F7/", f"/calls/{call.public_id}/", f"/calls/{call.public_id}/why/",
        f"/approvals/{ask_id.id}/", f"/sources/{call.run.source_id}/", "/policy/grants/", "/settings/audit/",
        f"/connect/?source={call.run.source.name}", f"/calls/{call.public_id}/rule/",
    ]  # fmt: skip


@pytest.mark.slow
def test_every_link_to_a_run_names_its_source(viewer: Client, both: tuple[ToolCall, ToolCall], a_person: Any) -> None:
    person = a_person("approver", "ann")
    for call in both:
        group_commit.execute(RecordFacts(call.run.source, NAME, [f.InputReady("more", "Read", {}, True)]))
        gate.vote(person, replace(make_ballot(call, "approve"), grant={"kind": "run"}))
    assert Grant.objects.count() == 2
    link_count = 0
    for call in both:
        for page in pages_of(call):
            answer = viewer.get(page)
            assert answer.status_code == 200, page
            for link in links(answer.content.decode()):
                link_count += 1
                assert parse_qs(urlsplit(link).query).get("source"), (page, link)
    assert link_count > 40


def test_cards_of_two_runs_with_one_name_are_distinguishable(viewer: Client, both: tuple[ToolCall, ToolCall]) -> None:
    for page in ("/calls/", "/approvals/"):
        html = viewer.get(page).content.decode()
        assert len(re.findall(r"<article [^>]*>", html)) == 2
        ids = re.findall(r'\sid="([^"]+)"', html)
        assert len(ids) == len(set(ids))
        card_pairs = re.findall(r'data-run="([^"]+)".*? data-source="([^"]+)"', html)
        assert sorted(card_pairs) == [(NAME, "a twin"), (NAME, "an agent")]
    for name, own in (("a twin", "IMPOSTOR"), ("an agent", "REAL")):
        html = viewer.get("/calls/", {"source": name, "run": NAME}).content.decode()
        assert html.count("<article") == 1 and own in html


def test_all_that_a_run_waits_for_is_denied_by_source(viewer: Client, both: tuple[ToolCall, ToolCall]) -> None:
    for call in both:
        gate.decide(call.run.source, gate.DecisionRequest(run=NAME, call_id="d", tool="wipe", args={"what": "x"}))
    html = viewer.get("/approvals/").content.decode().split('id="of-runs"')[1].split("</details>")[0]
    rows = re.findall(r"<li id=\"of-run-\d+\">(.*?)</li>", html, re.DOTALL)
    assert len(rows) == 2
    for call in both:
        (row,) = [row for row in rows if f"of {call.run.source.name}:" in row]
        result = call.as_card().approval
        assert result is not None and result.id in row and call.run.url in links(row)


def test_attempts_are_looked_for_in_the_call_s_own_run() -> None:
    html = rendering.render_uncached(call_of(a_card(ToolCallState.OUTPUT_ERROR, attempt=2)))
    (query,) = {unescape(one) for one in re.findall(r'href="/calls/\?(q=[^"]+)"', html)}
    assert parse_qs(query) == {"q": ["call-1"], "run": ["run/7"], "source": ["src"]}


def test_what_is_sent_to_others_links_to_the_source_s_own_run(policy: Any, source: Source, twin: Source) -> None:
    subscriptions.clear_cache()
    Webhook.objects.create(name="w", url="https://example.com/")
    policy({"default": "allow"})
    for whose in (source, twin):
        ask(whose, "x")
        group_commit.execute(RecordFacts(whose, NAME, [f.RunEnded(outcome="error")]))
    urls = {json.loads(text)["url"] for text in Delivery.objects.values_list("payload", flat=True)}
    subscriptions.clear_cache()
    assert urls == {"/runs/release%2F7/?source=an+agent", "/runs/release%2F7/?source=a+twin"}


# ---------------------------------------------------------------- live


async def test_a_socket_shows_the_run_of_the_source_that_it_names(
    viewer: Client, both: tuple[ToolCall, ToolCall]
) -> None:
    for call, own in zip(both, ("REAL", "IMPOSTOR"), strict=True):
        async with watching(viewer, f"/ws{call.run.url}") as live_socket:
            first = await text_with(live_socket, "<article")
        assert own in first and first.count("<article") == 1


@pytest.mark.parametrize(("query", "code"), [("", 4409), ("?source=gone", 4404)])
async def test_a_socket_that_names_no_single_run_is_closed(
    viewer: Client, both: tuple[ToolCall, ToolCall], query: str, code: int
) -> None:
    async with watching(viewer, f"/ws/runs/release%2F7/{query}") as live_socket:
        assert await close_code(live_socket) == code


async def test_a_page_that_is_open_stays_with_its_run_when_another_takes_the_name(
    viewer: Client, policy: Any, source: Source, twin: Source
) -> None:
    await sync_to_async(policy)({"default": "ask"})
    await sync_to_async(ask)(source, "REAL")
    html = (await sync_to_async(viewer.get)("/runs/release%2F7/")).content.decode()
    (path,) = [link for link in links(html) if link.startswith("/ws/")]
    async with watching(viewer, path) as live_socket:
        await text_with(live_socket, "run-head")
        await sync_to_async(ask)(twin, "IMPOSTOR")
        await sync_to_async(group_commit.execute)(RecordFacts(source, NAME, [f.InputReady("later", "Read", {}, True)]))
        assert "IMPOSTOR" not in await text_with(live_socket, 'data-call-id="later"')
    async with watching(viewer, path) as again:  # as a browser does that lost its link
        assert "IMPOSTOR" not in await text_with(again, 'data-call-id="later"')


async def test_pushed_cards_name_their_source_as_those_in_the_page_do(
    viewer: Client, policy: Any, source: Source, twin: Source
) -> None:
    await sync_to_async(policy)({"default": "ask"})
    await sync_to_async(ask)(source, "REAL")
    async with watching(viewer, "/ws/me/?board=calls&source=a+twin") as live_socket:
        await sync_to_async(ask)(twin, "IMPOSTOR")
        pushed = await text_with(live_socket, "<article")
    cards = "".join(re.findall(r"<article.*?</article>", pushed, re.DOTALL))  # the badge names what waits anywhere
    assert 'data-source="a twin"' in cards and "IMPOSTOR" in cards and "REAL" not in cards


async def test_strangers_learn_nothing_of_names(both: tuple[ToolCall, ToolCall]) -> None:
    live_socket = socket(None, "/ws/runs/release%2F7/")
    assert (await live_socket.connect())[0]
    assert await close_code(live_socket) == 4401
