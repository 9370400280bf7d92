"""Several calls answered at once in a real browser: ticks that survive what comes, and go where a call has changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.accessibility import find_violations
from tests.support.browser_pages import (
    GO_ON,
    NEEDS_BROWSER,
    STOP_THE_CLOCK,
    Open,
    armed,
    ask,
    card,
    expect,
    in_state,
    path_of,
    waiting,
    watch_posts,
)
from tests.support.server import PATIENCE, Server, until
from tests.support.voter import Voter

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]


IS_ON_SCREEN = """row => new Promise(done => {
  new IntersectionObserver(([entry], observer) => {
    observer.disconnect();
    done(entry.intersectionRatio >= .5);
  }).observe(row);
})"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a separate server: calls of other tests would appear in the same groups."""
    data: Path = tmp_path_factory.mktemp("batch")
    with Server(data) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_waits(server: Server) -> Iterator[None]:
    """Every test begins with an empty inbox."""
    yield
    person = Voter(server)
    for call in server.get("/api/v1/approvals?state=waiting&limit=200")["approvals"]:
        server.request("POST", f"/api/v1/approvals/{call['id']}/withdraw", {})
    assert "Nothing is waiting for you" in person.get("/approvals/") and not waiting(server)


def edits(server: Server, run: str, count: int) -> list[dict[str, Any]]:
    """Ask for that many calls which differ in their path alone; they are called c0, c1, …"""
    return [ask(server, run, f"c{number}", path=f"src/{number}.py", text="x") for number in range(count)]


def group(page: Any) -> Any:
    return page.locator("details.alike:has(form.in)").first


def open_group(page: Any) -> Any:
    page.locator("#similar > summary").click()
    page.wait_for_selector("details.alike")
    group(page).locator("summary").click()
    return group(page)


def boxes(page: Any) -> Any:
    return page.locator("input[name=pick][type=checkbox]")


def ticked(page: Any, *ticks: bool) -> None:
    """Wait until exactly these boxes are ticked."""
    until(lambda: [box.is_checked() for box in boxes(page).all()] == list(ticks))


def ready(page: Any) -> None:
    page.wait_for_selector("#batch button[value=approve]:not([aria-disabled])")


def states(server: Server, items: list[dict[str, Any]]) -> list[str]:
    return [server.get(f"/api/v1/approvals/{one['approval']['id']}")["approval"]["state"] for one in items]


@contextmanager
def changed(server: Server, run: str, call_id: str) -> Iterator[None]:
    """Say something more of a waiting call: it has another revision then. The agent stays until the end."""
    with server.socket(protocol="native", run=run, agent="bot", mode="gate") as agent:
        agent.send(json.dumps({"type": "approval.responded", "call_id": call_id, "approved": True}))
        assert "ack" in agent.recv(timeout=PATIENCE)
        yield


# ---------------------------------------------------------------- ticking and answering


def test_what_is_ticked_is_approved_and_the_rest_waits(server: Server, visit: Open, run: str) -> None:
    result = edits(server, run, 4)
    page = visit("/approvals/")
    open_group(page)
    for number in (0, 1, 3):
        boxes(page).nth(number).check()
    ready(page)
    group(page).get_by_role("button", name="Approve 3").click()
    page.wait_for_selector("#results:focus")
    expect(page.locator("#results [data-result='200']")).to_have_count(3)
    in_state(page, "approval-responded", "c0")
    assert states(server, result) == ["approved", "approved", "pending", "approved"]
    expect(page.locator("details.alike:has(form.in)")).to_have_count(0)  # one is no group


def test_only_calls_that_have_been_on_screen_are_approved_together(server: Server, visit: Open, run: str) -> None:
    result = edits(server, run, 49)  # more than a click, which scrolls, and a refusal bring on screen
    page = visit("/approvals/", viewport={"width": 1280, "height": 400})
    open_group(page)
    page.locator("[data-all]").check()
    ask(server, run, "late", path="src/late.py", text="x")
    ticked(page, *[True] * 49, False)
    ready(page)
    posted = watch_posts(page)
    page.locator("#batch .answer").get_by_role("button", name="Approve 49").click()
    expect(page.locator("#toast")).to_contain_text("have not been on screen yet")
    card(page, "c0").focus()
    page.keyboard.press("b")
    page.keyboard.press("a")  # all that is selected, by the bar
    assert not posted and set(states(server, result)) == {"pending"}
    page.locator("#similar > summary").click()
    for row in page.locator("#batch tr:has(input[name=pick])").all():
        row.scroll_into_view_if_needed()
        until(lambda row=row: row.evaluate(IS_ON_SCREEN))
    ready(page)
    page.locator("#batch .answer").get_by_role("button", name="Approve 49").click()
    page.wait_for_selector("#results:focus")
    assert set(states(server, result)) == {"approved"} and len(waiting(server)) == 1


def test_ticks_survive_what_comes_and_go_where_a_call_has_changed(server: Server, visit: Open, run: str) -> None:
    edits(server, run, 3)
    page = visit("/approvals/")
    open_group(page)
    for number in (0, 1):
        boxes(page).nth(number).check()
    group(page).locator("input[name=one_reason]").fill("half a reason")
    ask(server, run, "c3", path="src/3.py", text="x")
    ticked(page, True, True, False, False)
    expect(group(page).locator("input[name=one_reason]")).to_have_value("half a reason")
    expect(group(page)).to_have_attribute("open", "")
    with changed(server, run, "c1"):
        page.wait_for_function("() => document.getElementById('say').textContent.includes('no longer selected')")
        ticked(page, True, False, False, False)
        expect(group(page).get_by_role("button", name="Deny 1")).to_have_count(1)


def test_a_card_that_changed_under_the_hand_is_refused_and_says_so(server: Server, visit: Open, run: str) -> None:
    result = edits(server, run, 2)
    page = visit("/approvals/", java_script_enabled=False, live=False)
    open_group(page)
    for number in (0, 1):
        boxes(page).nth(number).check()
    with changed(server, run, "c0"), page.expect_navigation():
        group(page).locator("button[value=approve]").click()
    text = page.locator("#results").inner_text()
    assert "1 approved, 1 changed since you saw them." in text and "The call has changed since you saw it" in text
    assert states(server, result) == ["pending", "approved"]


def test_without_scripts_several_are_denied_with_one_reason(server: Server, visit: Open, run: str) -> None:
    result = edits(server, run, 3)
    page = visit("/approvals/", java_script_enabled=False, live=False)
    open_group(page)
    assert page.locator("[data-all]").is_hidden()
    for number in (0, 2):
        boxes(page).nth(number).check()
    group(page).locator("input[name=one_reason]").fill("not today")
    with page.expect_navigation():
        group(page).locator("button[value=deny]").click()
    assert page.url == f"{server.base}/approvals/" and "2 denied." in page.locator("main").inner_text()
    assert states(server, result) == ["denied", "pending", "denied"]
    approval = server.get(f"/api/v1/approvals/{result[0]['approval']['id']}")
    assert "not today" in approval["reason"]["text"]


def test_of_two_people_the_first_answer_counts_and_the_other_sees_it(server: Server, visit: Open, run: str) -> None:
    result = edits(server, run, 2)
    page = visit("/approvals/")
    open_group(page)
    page.locator("[data-all]").check()
    ready(page)
    cut = "at => at._htmx.ws.connection"
    page.locator("[data-socket]").evaluate(f"{cut}.config.reconnect = false")  # the live link tells nothing any more
    page.locator("[data-socket]").evaluate(f"{cut}.socket.close()")
    page.wait_for_selector("body[data-live=down]")
    Voter(server).vote(quote(run, safe=""), "deny")
    group(page).locator("button[value=approve]").click()
    page.wait_for_selector("#results:focus")
    text = page.locator("#results").inner_text()
    assert "1 approved, 1 already decided." in text and "Already denied by admin" in text
    assert sorted(states(server, result)) == ["approved", "denied"]
    in_state(page, "approval-responded", "c1")  # the answer brought the cards with it
    in_state(page, "output-denied", "c0")


def test_a_group_that_came_or_changed_is_not_approved_at_once(server: Server, visit: Open, run: str) -> None:
    result = edits(server, run, 2)
    page = visit("/approvals/")
    open_group(page)
    page.locator("[data-all]").check()
    page.evaluate(STOP_THE_CLOCK)
    ask(server, run, "c2", path="src/2.py", text="x")
    until(lambda: boxes(page).count() == 3)
    posted = watch_posts(page)
    group(page).locator("button[value=approve]").evaluate("button => button.click()")
    page.evaluate(GO_ON)
    assert not posted and states(server, result) == ["pending"] * 2
    ready(page)
    group(page).locator("button[value=approve]").evaluate("button => button.click()")
    until(lambda: states(server, result) == ["approved"] * 2)
    assert len(posted) == 1


def test_a_high_risk_cannot_be_approved_together(server: Server, visit: Open, run: str) -> None:
    for number in range(2):
        body = {"run": run, "call_id": f"d{number}", "tool": "delete_file", "args": {"path": f"{number}.txt"}}
        server.request("POST", "/api/v1/calls/decide", body)
    page = visit("/approvals/")
    open_group(page)
    assert "cannot be approved together" in group(page).inner_text()
    assert group(page).locator("button[value=approve]").count() == 0
    page.locator("[data-all]").check()
    group(page).get_by_role("button", name="Deny 2").click()
    in_state(page, "output-denied", "d0")
    in_state(page, "output-denied", "d1")


def test_all_of_a_run_is_denied_at_once(server: Server, visit: Open, run: str) -> None:
    decision = [*edits(server, run, 2), ask(server, run, "w", text="something else")]
    page = visit("/approvals/")
    page.locator("#similar > summary").click()
    page.locator("#of-runs > summary").click()
    page.locator(".of-run input[name=one_reason]").fill("wrong branch")
    page.get_by_role("button", name="Deny all 3").click()
    page.wait_for_selector("#results:focus")
    assert states(server, decision) == ["denied"] * 3


def test_the_results_are_shown_though_the_group_went_before_they_came(server: Server, visit: Open, run: str) -> None:
    result = edits(server, run, 2)
    page = visit("/approvals/")
    page.locator("#similar > summary").click()
    page.locator("#of-runs > summary").click()

    def late(route: Any) -> None:
        answer = route.fetch()
        page.wait_for_selector("#of-runs", state="detached")  # the live link was faster
        route.fulfill(response=answer)

    page.route("**/approvals/votes", late)
    page.get_by_role("button", name="Deny all 2").click()
    page.wait_for_selector("#results:focus")
    assert "2 denied." in page.locator("#results").inner_text() and states(server, result) == ["denied"] * 2


# ---------------------------------------------------------------- by keyboard


def test_keys_select_one_and_all_of_its_shape_and_answer_them(server: Server, visit: Open, run: str) -> None:
    decision = [*edits(server, run, 3), ask(server, run, "other", command="ls")]
    page = visit("/approvals/")
    armed(page, "c1")
    card(page, "c1").focus()
    page.keyboard.press("x")
    ticked(page, False, True, False)
    expect(page.locator("#batch-bar")).to_be_visible()
    page.keyboard.press("x")
    ticked(page, False, False, False)
    expect(page.locator("#batch-bar")).to_be_hidden()
    page.keyboard.press("s")
    ticked(page, True, True, True)
    page.wait_for_function("document.activeElement.matches('#batch form')")
    posted = watch_posts(page)
    page.keyboard.press("d")
    page.keyboard.type("too many")
    page.keyboard.press("Enter")  # decides nothing
    assert states(server, decision)[:3] == ["pending"] * 3
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#results:focus")
    assert len(posted) == 1 and states(server, decision) == ["denied"] * 3 + ["pending"]
    card(page, "other").focus()
    page.keyboard.press("s")
    page.wait_for_function("() => document.getElementById('say').textContent.includes('No similar call')")


def test_keys_edit_a_call_and_make_a_rule_from_it(server: Server, visit: Open, run: str) -> None:
    ask(server, run)
    page = visit(path_of(run))
    armed(page)
    card(page).focus()
    page.keyboard.press("e")
    page.wait_for_function("document.activeElement.name === 'edited_args'")
    before = page.evaluate("document.activeElement.value")
    page.keyboard.press("r")  # in a field it is a letter
    page.wait_for_function("before => document.activeElement.value.length === before.length + 1", arg=before)
    assert page.url == server.base + path_of(run)
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    page.wait_for_url(re.compile("/calls/[0-9]+-[0-9]+/rule/"))


def test_the_help_names_the_keys(visit: Open) -> None:
    page = visit("/approvals/")
    page.keyboard.press("?")
    page.locator("#help").wait_for()
    text = page.locator("#help").inner_text()
    assert all(word in text for word in ("edit its input", "select all similar calls", "make a rule"))


# ---------------------------------------------------------------- settling by hand, and for everybody


def test_the_outcome_of_a_call_without_a_result_is_recorded_on_its_card(server: Server, visit: Open, run: str) -> None:
    decision = ask(server, run)
    Voter(server).vote(quote(run, safe=""), "approve")
    approval = until(lambda: server.get(f"/api/v1/approvals/{decision['approval']['id']}").get("permit"))
    proof = {"call_id": "c1", "args_sha256": decision["args_sha256"]}
    assert server.request("POST", f"/api/v1/permits/{approval['id']}/claim", proof)[0] == 200
    where = f"/api/v1/runs/{quote(run, safe='')}/end"
    assert server.request("POST", where, {"outcome": "truncated"})[0] == 200
    page = visit(path_of(run))
    card(page).get_by_text("Record the outcome").click()
    card(page).locator("input[name=note]").fill("the branch is there")
    card(page).get_by_role("button", name="It succeeded").click()
    in_state(page, "output-available")
    shown_text = card(page).inner_text()
    assert (
        "Recorded by admin at" in shown_text and "it succeeded." in shown_text and "the branch is there" in shown_text
    )
    result = {"run": run, "outcome": "error", "error": {"message": "no, it broke"}}
    assert server.request("POST", "/api/v1/calls/c1/result", result)[0] == 200
    in_state(page, "output-error")
    assert (
        "no, it broke" in card(page).inner_text()
        and "own result arrived later and takes precedence" in card(page).inner_text()
    )


@pytest.mark.sweep
def test_groups_and_results_pass_the_accessibility_check(server: Server, visit: Open, run: str) -> None:
    edits(server, run, 3)
    for number in range(2):
        body = {"run": run, "call_id": f"d{number}", "tool": "delete_file", "args": {"path": f"../{number}.txt"}}
        server.request("POST", "/api/v1/calls/decide", body)
    page = visit("/approvals/", reduced_motion="reduce")
    page.locator("#similar > summary").click()
    for fold in page.locator("details.alike > summary").all():
        fold.click()
    boxes(page).nth(2).check()
    page.locator("details.alike:has(button[value=approve]) [data-all]").check()
    ready(page)
    entries: list[Any] = []

    def look(step: str) -> None:
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            entries.extend((step, width, *violation) for violation in find_violations(page))
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    look("groups")
    page.get_by_role("button", name="Deny all 5").click()
    page.wait_for_selector("#results:focus", timeout=PATIENCE * 1000)
    look("results")
    assert not entries
