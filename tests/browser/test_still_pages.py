"""Nothing moves under a reader: what comes, changes and goes while a page is open shifts no other part of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browser_pages import NEEDS_BROWSER, Open, ask, card, path_of, tell, waiting
from tests.support.server import Server, until

pytestmark = NEEDS_BROWSER

# Sums the layout shifts from now on, those just after the reader's own input excepted.
WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts.push(entry.value);
}).observe({type: 'layout-shift'});
"""
SUM_SHIFTS = "window.shifts.reduce((sum, value) => sum + value, 0)"


def withdraw_all(server: Server) -> None:
    for approval in waiting(server):
        server.request("POST", f"/api/v1/approvals/{approval}/withdraw", {})


def count_layouts(page: Any) -> float:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return float(metrics["LayoutCount"])


def done(call_id: str) -> list[dict[str, Any]]:
    return [
        {"type": "tool.input.available", "call_id": call_id, "tool": {"name": "Read"}, "input": {"path": call_id}},
        {"type": "tool.output.available", "call_id": call_id, "output": "ok"},
    ]


def test_new_calls_on_the_page_of_all_calls_wait_behind_a_button(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(12) for frame in done(f"{run}-a{n}")])
    page = visit("/calls/")
    page.evaluate(WATCH_SHIFTS)
    tell(server, run, *[frame for n in range(12) for frame in done(f"{run}-b{n}")])
    page.wait_for_selector("button[data-held='12']")
    assert card(page, f"{run}-b0").count() == 0
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    page.check("[data-follow]")
    page.wait_for_selector(f"article[data-call-id='{run}-b11']")
    tell(server, run, *done(f"{run}-c"))
    page.wait_for_selector(f"article[data-call-id='{run}-c']")  # following, it comes at once
    page.uncheck("[data-follow]")


def test_a_run_that_goes_on_moves_nothing(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(12) for frame in done(f"a{n}")])
    page = visit(path_of(run))
    page.evaluate(WATCH_SHIFTS)
    for n in range(20):
        tell(server, run, *done(f"b{n}"))
    page.wait_for_selector("article[data-call-id=b19][data-state=output-available]", state="attached")
    page.wait_for_timeout(1500)
    assert page.evaluate(SUM_SHIFTS) <= 0.1


def test_pushed_changes_force_no_layout_of_their_own(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[{"type": "tool.input.start", "call_id": f"a{n}", "tool": {"name": "Read"}} for n in range(60)])
    page = visit(path_of(run))
    page.wait_for_timeout(500)
    before = count_layouts(page)
    tell(server, run, *[frame for n in range(60) for frame in done(f"a{n}")])
    page.wait_for_selector("article[data-call-id=a59][data-state=output-available]", state="attached")
    assert count_layouts(page) - before < 40  # one for each card that changed would be 60 or more


def test_calls_that_were_decided_elsewhere_become_one_line_and_go(server: Server, visit: Open, run: str) -> None:
    for n in range(4):
        ask(server, run, call_id=f"{run}-{n}")
    page = visit("/approvals/")
    page.wait_for_selector(f"article[data-call-id='{run}-3'][data-waiting]")
    page.evaluate(WATCH_SHIFTS)
    withdraw_all(server)
    page.wait_for_selector(f"li.departed > article[data-call-id='{run}-1']", state="attached")
    assert not card(page, f"{run}-1").locator(".card-main").is_visible()
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    page.wait_for_selector(f"li.settled > article[data-call-id='{run}-3']", state="attached")
    ask(server, run, call_id=f"{run}-new")
    page.wait_for_selector(f"article[data-call-id='{run}-new'][data-waiting]")
    assert page.locator("article.card").first.get_attribute("data-call-id") == f"{run}-new"
    withdraw_all(server)


def test_the_first_page_shows_the_first_five_that_wait_and_the_next_as_they_go(
    server: Server, visit: Open, run: str
) -> None:
    withdraw_all(server)
    page = visit("/")
    for n in range(7):
        ask(server, run, call_id=f"{run}-{n}")
    page.wait_for_selector(f"article[data-call-id='{run}-4'][data-waiting]")
    page.wait_for_timeout(1000)
    assert page.locator("article[data-waiting]").count() == 5
    server.request("POST", f"/api/v1/approvals/{waiting(server)[-1]}/withdraw", {})
    until(lambda: page.locator("article[data-waiting]").count() == 5)
    withdraw_all(server)


@pytest.mark.parametrize("path", ["/", "/approvals/", "/runs/", "/calls/", "/sources/"])
def test_no_page_scrolls_sideways_on_the_smallest_phone_and_every_tab_fits(
    server: Server, visit: Open, run: str, path: str
) -> None:
    ask(server, run, call_id=f"{run}-1")
    page = visit(path, viewport={"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    last = page.locator(".side .nav:not(.second) a").last.bounding_box()
    assert last["x"] + last["width"] <= 320
    withdraw_all(server)
