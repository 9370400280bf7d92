"""A person acts while pages change: what they do counts for what they meant, or the page says that it did not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.browser_pages import (
    NEEDS_BROWSER,
    Desk,
    Open,
    armed,
    ask,
    card,
    cut_link,
    expect,
    in_state,
    let_pass,
    path_of,
    tell,
    watch_posts,
    withdraw_all,
)
from tests.support.server import Server, until

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]

A_PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a separate server: the inbox must show the calls of one test only."""
    data: Path = tmp_path_factory.mktemp("busy")
    with Server(data) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_waits(server: Server) -> Iterator[None]:
    """Every test begins with an empty inbox."""
    yield
    withdraw_all(server)


def withdraw(server: Server, decision: dict[str, Any]) -> None:
    """Take the question back, as its agent would."""
    status, answer, _ = server.request("POST", f"/api/v1/approvals/{decision['approval']['id']}/withdraw", {})
    assert status == 200, answer


# ---------------------------------------------------------------- typing


@pytest.mark.parametrize("is_inbox", [True, False])
def test_what_is_typed_after_a_field_has_gone_answers_no_other_call(
    server: Server, visit: Open, run: str, is_inbox: bool
) -> None:
    decision = ask(server, run, f"{run}-1")
    ask(server, run, f"{run}-2")
    page = visit("/approvals/" if is_inbox else path_of(run))
    posted = watch_posts(page)
    card(page, f"{run}-1").locator("input[name=reason]").click()
    page.keyboard.type("Looks like ")
    withdraw(server, decision)
    card(page, f"{run}-1").locator("form.acts").wait_for(state="detached")
    kept_field = page.locator(".kept-text textarea")
    expect(kept_field).to_be_focused()
    page.keyboard.press("n")
    armed(page, f"{run}-2")
    let_pass(page, 500)
    page.keyboard.press("a")
    expect(kept_field).to_have_value("Looks like na")  # what is typed next comes there, too
    expect(page.locator(".kept-text")).to_contain_text("was not sent")
    let_pass(page, 500)
    assert not posted
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(card(page, f"{run}-2")).to_be_focused()
    let_pass(page, 500)
    page.keyboard.press("a")
    in_state(page, "approval-responded", f"{run}-2")


def test_what_is_typed_after_the_bar_for_several_has_gone_answers_no_call(
    server: Server, visit: Open, run: str
) -> None:
    decision = ask(server, run, f"{run}-1")
    ask(server, run, f"{run}-2")
    page = visit("/approvals/")
    posted = watch_posts(page)
    page.locator(".queue .line input").first.check()
    page.locator("#batch-bar input[name=one_reason]").click()
    page.keyboard.type("Looks like ")
    withdraw(server, decision)
    page.wait_for_selector("#batch-bar", state="hidden")
    page.keyboard.press("n")
    let_pass(page, 500)
    page.keyboard.press("a")
    let_pass(page, 500)
    assert not posted


def test_a_reason_stays_with_its_run_when_the_run_before_it_leaves_the_list(
    server: Server, visit: Open, run: str
) -> None:
    decisions = {name: ask(server, f"{run}{name[0]}", name) for name in ("a1", "a2", "b1", "b2", "c1", "c2")}
    page = visit("/approvals/")
    page.locator("#similar > summary").click()
    page.locator("#of-runs > summary").click()
    form = page.locator("form.of-run", has_text=f"{run}b")
    form.locator("input[name=one_reason]").click()
    page.keyboard.type("Not by ")
    ask(server, f"{run}b", "b3")
    withdraw(server, decisions["a1"])
    expect(page.locator("form.of-run", has_text=f"{run}a")).to_have_count(0)
    expect(form.locator("button")).to_have_text("Deny all 3")
    page.keyboard.type("night")
    expect(form.locator("input[name=one_reason]")).to_have_value("Not by night")


# ---------------------------------------------------------------- reading and pressing


# Selects a word in the element that the selector finds; returns what is selected.
SELECT = """([selector, word]) => {
  const text = document.createTreeWalker(document.querySelector(selector), NodeFilter.SHOW_TEXT);
  while (text.nextNode()) {
    const at = text.currentNode.data.indexOf(word);
    if (at < 0) continue;
    getSelection().setBaseAndExtent(text.currentNode, at, text.currentNode, at + word.length);
    return String(getSelection());
  }
}"""


@pytest.mark.parametrize(
    ("first", "more", "selector"),
    [
        (
            {"type": "tool.output.partial", "call_id": "c1", "output": "one two"},
            {"type": "tool.output.partial", "call_id": "c1", "output": "one two three"},
            "article details[open] .body pre.text",
        ),
        ({"type": "text.delta", "text": "one two"}, {"type": "text.delta", "text": " three"}, ".wrote .body"),
    ],
)
def test_selected_text_stays_selected_while_it_grows(
    server: Server, visit: Open, run: str, first: dict[str, str], more: dict[str, str], selector: str
) -> None:
    with server.socket(protocol="native", run=run, agent="bot", mode="observe") as agent:
        begin = {"type": "tool.input.available", "call_id": "c1", "tool": "Bash", "input": {}}
        agent.send(json.dumps([begin, first]))
        until(lambda: server.request("GET", f"/api/v1/runs/{quote(run, safe='')}")[0] == 200)
        page = visit(path_of(run))
        if first["type"] == "tool.output.partial":
            card(page).locator("details[id$=-out] > summary").click()
        expect(page.locator(selector)).to_contain_text("one two")
        assert page.evaluate(SELECT, [selector, "two"]) == "two"
        agent.send(json.dumps([more]))
        expect(page.locator(selector)).to_contain_text("three")
        assert page.evaluate("String(getSelection())") == "two"


def test_a_card_that_another_one_moves_takes_no_approval_at_once(server: Server, visit: Open, run: str) -> None:
    decision = ask(server, run, "c1")
    ask(server, run, "c2")
    page = visit(path_of(run))
    armed(page, "c2")
    page.evaluate(
        """() => {
          window.armings = 0;
          const button = document.querySelector("article[data-call-id='c2'] button[value=approve]");
          new MutationObserver(() => { window.armings += Number(button.hasAttribute('aria-disabled')); })
            .observe(button, {attributeFilter: ['aria-disabled']});
        }"""
    )
    page.evaluate("scrollBy(0, 10)")
    tell(server, f"{run}-other", {"type": "run.started", "agent": "bot"})
    let_pass(page, 500)
    assert page.evaluate("window.armings") == 0
    withdraw(server, decision)
    until(lambda: page.evaluate("window.armings"))


def test_the_call_that_comes_in_place_of_one_that_was_removed_takes_no_approval_at_once(
    server: Server, visit: Open, run: str
) -> None:
    for number in (1, 2):
        ask(server, run, f"{run}-{number}")
    page = visit("/approvals/")
    armed(page, f"{run}-2")
    expect(page.locator("#board > .selected article")).to_have_attribute("data-call-id", f"{run}-1")
    is_armed = page.evaluate(
        """async () => {
          const [first, second] = document.querySelectorAll('article.card');
          const text = '<hx-partial hx-target="#board" hx-swap="place">'
            + `<article id="${first.id}" data-removed></article></hx-partial>`;
          await htmx.swap({sourceElement: document.body, target: document.body, swap: 'none', text, transition: false});
          return second.querySelector('button[value=approve]').hasAttribute('aria-disabled');
        }"""
    )
    assert is_armed
    expect(page.locator("#board > .selected article")).to_have_attribute("data-call-id", f"{run}-2")


def test_a_finger_that_rests_during_a_swipe_keeps_its_place_though_a_card_changes(
    server: Server, visit: Open, run: str
) -> None:
    for number in (1, 2):
        ask(server, run, f"{run}-{number}")
    page = visit("/approvals/", **A_PHONE)
    expect(page.locator("#position")).to_have_text("1 of 2")
    page.evaluate(
        """() => {
          const list = document.getElementById('board');
          list.style.scrollSnapType = 'none';  // a finger holds the box between two cards
          list.dispatchEvent(new Event('touchstart'));
          list.scrollLeft = 100;
        }"""
    )
    let_pass(page, 400)
    ask(server, run, f"{run}-3")
    expect(page.locator("#position")).to_have_text("1 of 3")
    assert page.evaluate("document.getElementById('board').scrollLeft") == 100
    page.evaluate(
        """() => {
          const list = document.getElementById('board');
          list.scrollLeft = list.clientWidth;
          list.dispatchEvent(new Event('touchend'));
        }"""
    )
    expect(page.locator("#position")).to_have_text("2 of 3")


# ---------------------------------------------------------------- answers that do not arrive


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "The server cannot be reached. Try again."),
        (503, "The server could not answer (503). Try again."),
        (403, "The server sent an unexpected answer. Reload the page."),
    ],
)
def test_a_press_that_had_no_effect_says_so(server: Server, desk: Desk, run: str, status: int, text: str) -> None:
    ask(server, run, f"{run}-1")
    page = desk.open_page(server, {})  # the console of `visit` may not name errors, and these are wanted
    page.goto(f"{server.base}/approvals/")
    armed(page, f"{run}-1")
    page.route("**/vote", lambda route: route.fulfill(status=status, body="<p>No") if status else route.abort())
    card(page, f"{run}-1").locator("button[value=approve]").click()
    expect(page.locator("#toast")).to_have_text(text)
    expect(page.locator("#toast")).to_be_visible()
    expect(page.locator("#alert")).to_have_text(text)
    page.unroute("**/vote")
    card(page, f"{run}-1").locator("button[value=approve]").click()
    in_state(page, "approval-responded", f"{run}-1")
    desk.put_back(page.context, server, {})


@pytest.mark.parametrize("status", [0, 503, 403, 200])
def test_an_answer_to_several_calls_that_had_no_effect_says_so(
    server: Server, desk: Desk, run: str, status: int
) -> None:
    ask(server, run, f"{run}-1")
    page = desk.open_page(server, {})
    page.goto(f"{server.base}/approvals/")
    page.locator(".queue .line input").first.check()
    page.route("**/votes", lambda route: route.fulfill(status=status, body="<p>No") if status else route.abort())
    page.locator("#batch-bar button[value=deny]").click()
    expect(page.locator("#toast[data-failure]")).to_be_visible()
    page.unroute("**/votes")
    page.locator("#batch-bar button[value=deny]").click()
    in_state(page, "output-denied", f"{run}-1")
    ask(server, run, f"{run}-2")
    armed(page, f"{run}-2")
    expect(page.locator("#results")).to_be_visible()
    page.route("**/vote", lambda route: route.abort())
    card(page, f"{run}-2").locator("button[value=deny]").click()
    expect(page.locator("#toast")).to_have_text("The server cannot be reached. Try again.")
    expect(page.locator("#toast")).to_be_visible()
    desk.put_back(page.context, server, {})


@pytest.mark.parametrize("how", [{}, A_PHONE])
def test_a_note_does_not_cover_that_the_link_is_lost(
    server: Server, visit: Open, run: str, how: dict[str, Any]
) -> None:
    ask(server, run, f"{run}-1")
    page = visit("/approvals/", **how)
    armed(page, f"{run}-1")
    cut_link(page, seconds=600)
    expect(page.locator(".bar-lost")).to_be_visible()
    page.keyboard.press("z")
    expect(page.locator("#toast")).to_be_visible()
    bar, note = (page.locator(selector).bounding_box() for selector in (".bar-lost", "#toast"))
    assert note["y"] >= bar["y"] + bar["height"] or bar["y"] >= note["y"] + note["height"]


# ---------------------------------------------------------------- cards that the page keeps for later


def test_a_call_that_ended_while_it_was_held_back_does_not_come_as_waiting(
    server: Server, visit: Open, run: str
) -> None:
    ask(server, run, f"{run}-1")
    page = visit("/approvals/")
    card(page, f"{run}-1").locator("input[name=reason]").fill("thinking")
    decisions = [ask(server, run, f"{run}-{number}") for number in (2, 3)]
    page.wait_for_selector("button[data-held='2']")
    withdraw(server, decisions[0])
    page.click("button[data-held='1']")
    expect(card(page, f"{run}-3")).to_have_count(1)
    expect(card(page, f"{run}-2")).to_have_count(0)


def test_a_held_call_that_ended_while_the_link_was_down_does_not_come_as_waiting(
    server: Server, visit: Open, run: str
) -> None:
    ask(server, run, f"{run}-1")
    page = visit("/approvals/")
    card(page, f"{run}-1").locator("input[name=reason]").fill("thinking")
    decision = ask(server, run, f"{run}-2")
    page.wait_for_selector("button[data-held='1']")
    cut_link(page, seconds=4)
    withdraw(server, decision)
    page.wait_for_selector("body[data-live=up]")
    page.wait_for_selector("button[data-held]", state="detached")
