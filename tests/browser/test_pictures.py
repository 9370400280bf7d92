"""Pictures as tables: what a reader has opened stays open when the picture is redrawn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.accessibility import find_violations
from tests.support.browser_pages import NEEDS_BROWSER, Open, ask, expect, let_pass, path_of, tell
from tests.support.server import PATIENCE, Server

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]


def build_picture_call(number: int) -> dict[str, Any]:
    return {"type": "tool.input.available", "call_id": f"p{number}", "tool": "Read", "input": {"n": number}}


def test_the_table_of_a_picture_stays_open_while_calls_come(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[build_picture_call(number) for number in range(3)])
    page = visit("/")
    page.locator("#minutes-table > summary").click()
    before = page.locator("#minutes-table").inner_text()
    tell(server, run, build_picture_call(3))
    page.wait_for_function("before => document.querySelector('#minutes-table').innerText !== before", arg=before)
    expect(page.locator("#minutes-table")).to_have_attribute("open", "")


def test_the_timeline_as_a_table_is_live_and_leads_back_to_the_picture(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[build_picture_call(number) for number in range(3)])
    page = visit(f"{path_of(run)}?tab=timeline")
    with page.expect_navigation():
        page.locator("#other-form").click()
    page.wait_for_selector("body[data-live=up]")
    expect(page.locator("#timeline-table li")).to_have_count(3)
    assert page.locator("svg[data-zoom]").count() == 0
    tell(server, run, build_picture_call(3))
    page.wait_for_selector("#timeline-table li:nth-child(4)")
    with page.expect_navigation():
        page.locator("#other-form").click()
    page.wait_for_selector("svg[data-zoom]")


def test_a_bar_says_what_it_is_under_the_pointer_and_in_focus(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[build_picture_call(number) for number in range(2)])
    page = visit(f"{path_of(run)}?tab=timeline")
    page.locator(".timeline svg a rect").first.hover()
    page.wait_for_selector("#bar-detail >> text=Read")
    page.mouse.move(5, 5)
    page.wait_for_selector("#bar-detail", state="hidden")
    page.locator(".timeline svg a").nth(1).focus()
    page.wait_for_selector("#bar-detail >> text=Read")


def test_what_a_bar_says_follows_its_call(server: Server, visit: Open, run: str) -> None:
    call = {"call_id": "c1", "tool": "Read"}
    with server.socket(protocol="native", run=run, agent="bot", mode="observe") as agent:
        agent.send(json.dumps({"type": "tool.input.available", "input": {}, **call}))
        agent.recv(PATIENCE)
        page = visit(f"{path_of(run)}?tab=timeline")
        page.locator(".timeline svg a").first.focus()
        expect(page.locator("#bar-detail")).to_contain_text("running")
        agent.send(json.dumps({"type": "tool.output.available", "call_id": "c1", "output": "x"}))
        expect(page.locator("#bar-detail")).to_contain_text("done")


@pytest.mark.sweep
def test_the_overview_and_its_table_pass_the_accessibility_check(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[build_picture_call(number) for number in range(320)])
    violations = {}
    for path, folds in (
        (f"{path_of(run)}?tab=timeline", ()),
        (f"{path_of(run)}?tab=timeline&table=1", ()),
        ("/", ("#minutes-table",)),
    ):
        page = visit(path, reduced_motion="reduce")
        for fold in folds:
            page.locator(f"{fold} > summary").click()
        violations[path] = find_violations(page)
    assert not any(violations.values()), violations


def test_dragging_over_the_timeline_opens_that_part_and_escape_leads_back(
    server: Server, visit: Open, run: str
) -> None:
    frames = [
        {"type": "tool.input.available", "call_id": "c1", "tool": "Read", "input": {}},
        {"type": "tool.output.available", "call_id": "c1", "output": "ok"},
        {"type": "tool.input.available", "call_id": "c2", "tool": "Bash", "input": {"command": "ls"}},
    ]
    tell(server, run, *frames)
    page = visit(f"{path_of(run)}?tab=timeline")
    box = page.locator("svg[data-zoom]").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=4)
    page.keyboard.press("Escape")
    expect(page.locator(".chosen")).to_have_count(0)
    page.mouse.up()
    let_pass(page, 200)  # fails if the page leaves
    assert "start=" not in page.url
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"], middle, steps=4)
    page.mouse.up()
    page.wait_for_url("**start=*")
    page.wait_for_selector("a[data-whole]")
    page.keyboard.press("Escape")
    page.wait_for_function("!location.search.includes('start=')")


def test_a_part_that_reaches_to_now_follows_the_clock_until_its_switch_is_off(
    server: Server, visit: Open, run: str
) -> None:
    ask(server, run, call_id="c1")
    page = visit(f"{path_of(run)}?tab=timeline")
    bars, switch = page.locator(".timeline svg a"), page.get_by_label("Follow new calls")
    expect(bars).to_have_count(1)
    assert switch.count() == 0
    box = page.locator("svg[data-zoom]").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"], box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_url("**latest=*")
    page.wait_for_selector("body[data-live=up]")
    expect(switch).to_be_checked()
    ask(server, run, call_id="c2")
    page.wait_for_selector(".timeline svg a >> nth=1", state="attached")
    with page.expect_navigation():
        switch.click()
    expect(switch).not_to_be_checked()
    assert "start=" in page.url and "latest=" not in page.url
    with page.expect_navigation():
        switch.click()
    expect(switch).to_be_checked()
    assert "latest=" in page.url
    page.locator("a[data-whole]").click()
    page.wait_for_function("!location.search.includes('latest=')")
