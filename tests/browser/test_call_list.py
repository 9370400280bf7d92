"""The list of all calls: a line for each call, a card where it waits, and lines that open in place."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.support.browser_pages import NEEDS_BROWSER, Open, armed, ask, card, expect, in_state, let_pass, tell
from tests.support.server import Server

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]
MOST_NODES, COUNT_NODES = 1_200, "document.querySelectorAll('*').length"


def build_start(call_id: str, tool: str = "Read") -> dict[str, Any]:
    return {"type": "tool.input.available", "call_id": call_id, "tool": tool, "input": {"path": call_id}}


def build_result(call_id: str) -> dict[str, Any]:
    return {"type": "tool.output.available", "call_id": call_id, "output": "all of it"}


def is_line(page: Any, call_id: str) -> bool:
    return bool(card(page, call_id).evaluate("card => card.hasAttribute('data-line')"))


def list_of(run: str) -> str:
    return f"/calls/?run={quote(run, safe='')}"


def test_fifty_calls_are_lines_that_say_where_they_come_from(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(50) for frame in (build_start(f"c{n}"), build_result(f"c{n}"))])
    page = visit(list_of(run))
    assert page.locator("article[data-line]").count() == 50
    assert page.evaluate(COUNT_NODES) <= MOST_NODES
    origin = card(page, "c0").locator(".origin")
    assert "bot" in origin.inner_text() and run in origin.inner_text() and origin.locator("time").count() == 1


def test_pushed_calls_become_the_lines_that_the_server_draws(server: Server, visit: Open, run: str) -> None:
    tell(server, run, build_start("old"))
    page = visit(list_of(run))
    page.check("[data-follow]")
    tell(server, run, build_result("old"), build_start("new"), build_result("new"))
    tell(server, run, build_start("twice"), build_result("twice"), build_result("twice") | {"output": "else"})
    tell(
        server,
        run,
        build_start("bad"),
        {"type": "tool.output.error", "call_id": "bad", "error": {"message": "it  broke"}},
    )
    states = {"old": "output-available", "new": "output-available", "twice": "output-available", "bad": "output-error"}
    page.locator("article[data-call-id=twice] .remark").wait_for()
    for call_id, state in states.items():
        in_state(page, state, call_id)
    tidy = "cards => cards.map(card => [card.dataset.callId, card.innerText.replace(/\\s+/g, ' ').trim()])"
    pushed = page.locator("article[data-line]").evaluate_all(tidy)
    page.uncheck("[data-follow]")
    page.reload()
    page.wait_for_selector("body[data-live=up]")
    assert page.locator("article[data-line]").evaluate_all(tidy) == pushed
    assert "it broke" in dict(pushed)["bad"] and "reported twice" in dict(pushed)["twice"]


def test_a_line_opens_in_place_and_stays_open_while_its_call_continues(server: Server, visit: Open, run: str) -> None:
    tell(server, run, build_start("c1"))
    page = visit(list_of(run))
    assert is_line(page, "c1")
    card(page).locator("a.call-line").click()
    page.wait_for_selector("article[data-call-id=c1]:not([data-line])")
    tell(server, run, build_result("c1"))
    in_state(page, "output-available")
    let_pass(page, 800)  # longer than the pause before cards become lines
    assert not is_line(page, "c1") and card(page).locator(".fold").count() == 2
    assert page.url.endswith(list_of(run))


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_call_that_waits_is_a_card_and_stays_one_once_it_is_answered(
    server: Server, visit: Open, run: str, decision: str
) -> None:
    page = visit(list_of(run))
    ask(server, run)
    armed(page)
    assert not is_line(page, "c1")
    card(page).locator(f"button[value={decision}]").click()
    in_state(page, "approval-responded" if decision == "approve" else "output-denied")
    let_pass(page, 800)
    assert not is_line(page, "c1")
    page.reload()
    page.wait_for_selector("article[data-call-id=c1][data-line]")


@pytest.mark.parametrize("follows", [False, True])
def test_of_many_calls_that_begin_to_wait_only_three_become_cards(
    server: Server, visit: Open, run: str, follows: bool
) -> None:
    tell(server, run, build_start("old"), build_result("old"))
    page = visit(list_of(run))
    if follows:
        page.check("[data-follow]")
    for number in range(5):
        ask(server, run, f"w{number}")
    if not follows:
        page.wait_for_selector("button[data-held='5']")
        page.locator("button[data-held]").click()
    page.wait_for_selector("article[data-call-id=w4]")
    cards = page.locator("article.card:not([data-line])")
    expect(page.locator("article.card")).to_have_count(6)
    expect(cards).to_have_count(3)
    ids = cards.evaluate_all("cards => cards.map(card => card.dataset.callId)")
    assert ids == (["w2", "w1", "w0"] if follows else ["w4", "w3", "w2"])
    line = card(page, "w0" if not follows else "w4")
    line.locator("a.call-line").click()  # what the reader opens does not count
    expect(line.locator("button[value=approve]")).to_have_count(1)
    expect(cards).to_have_count(4)


def test_a_line_that_begins_to_wait_stays_a_line_until_it_is_opened(server: Server, visit: Open, run: str) -> None:
    tell(server, run, build_start("above", "Edit"), build_start("c1", "Edit"))
    page = visit(list_of(run))
    requested = {"type": "approval.requested", "call_id": "c1", "approval_id": "p1"}
    tell(server, run, requested)
    in_state(page, "approval-requested")
    assert is_line(page, "c1")
    expect(card(page)).to_contain_text("Needs approval")
    card(page).locator("a.call-line").click()
    page.wait_for_selector("article[data-call-id=c1]:not([data-line])")


def test_without_scripts_a_line_leads_to_its_call(server: Server, visit: Open, run: str) -> None:
    tell(server, run, build_start("c1"), build_result("c1"))
    page = visit(list_of(run), live=False, java_script_enabled=False)
    with page.expect_navigation():
        card(page).locator("a.call-line").click()
    assert "all of it" in page.locator("main").inner_text() and page.url.split("/calls/")[1].rstrip("/")
