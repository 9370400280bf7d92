"""What readers must be able to read: whole titles, text of a readable size, and cards that nothing covers."""

from __future__ import annotations

import pytest

from tests.support.browser_pages import (
    NEEDS_BROWSER,
    Open,
    ask,
    build_done_call,
    card,
    expect,
    path_of,
    tell,
    withdraw_all,
)
from tests.support.server import Server

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]

# The smallest height of letters on the screen, in pixels; the picture is scaled to its box.
SMALLEST_TEXT = """svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const texts = [...svg.querySelectorAll('text')];
  return Math.min(...texts.map(text => parseFloat(getComputedStyle(text).fontSize) * scale));
}"""
IS_CUT = "title => title.scrollWidth > title.clientWidth || title.scrollHeight > title.clientHeight + 1"


@pytest.mark.parametrize("width", [320, 768, 1280, 1920])
def test_the_text_of_a_timeline_is_readable_at_every_width(server: Server, visit: Open, run: str, width: int) -> None:
    tell(server, run, *[frame for number in range(3) for frame in build_done_call(f"c{number}")])
    page = visit(f"{path_of(run)}?tab=timeline", viewport={"width": width, "height": 800})
    assert page.locator(".timeline svg").evaluate(SMALLEST_TEXT) >= 11
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # the picture scrolls, not the page


@pytest.mark.parametrize("width", [390, 1280])
def test_a_tile_shows_the_whole_title_of_its_run(server: Server, visit: Open, run: str, width: int) -> None:
    title = "Migrate the orders to the new schema" if width > 640 else "Migrate the orders"
    tell(server, run, {"type": "run.started", "agent": "data-migrator", "title": title}, *build_done_call("c1"))
    ask(server, run, "c2")
    page = visit("/", viewport={"width": width, "height": 800})
    name = page.locator(f".tile-head a[title='{run}']")
    expect(name).to_have_text(title)
    assert not name.evaluate(IS_CUT)
    withdraw_all(server)


FREE_PLACE = """list => {
  const free = getComputedStyle(list, '::after'), lines = [...list.children];
  const used = lines.at(-1).getBoundingClientRect().bottom - list.getBoundingClientRect().top;
  return free.display === 'none' ? 0 : used + parseFloat(free.height) - list.clientHeight;
}"""


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("width", [640, 656, 700, 1280])
def test_the_free_place_below_waiting_calls_covers_none_of_them(
    server: Server, visit: Open, run: str, width: int, calls: int
) -> None:
    withdraw_all(server)
    for number in range(calls):
        ask(server, run, f"{run}-{number}")
    page = visit("/", viewport={"width": width, "height": 400})
    waiting_list = page.locator("[data-board=now]")
    expect(waiting_list.locator("> li")).to_have_count(calls)
    assert waiting_list.evaluate(FREE_PLACE) <= 0
    withdraw_all(server)


def test_answered_calls_leave_no_blank_space_below_their_heading(server: Server, visit: Open, run: str) -> None:
    withdraw_all(server)
    for number in range(4):
        ask(server, run, f"{run}-{number}")
    page = visit("/approvals/", viewport={"width": 1280, "height": 800})
    end_part = page.locator("#queue .ended")
    for number in range(3):
        card(page, f"{run}-{number}").locator("button[value=deny]").click()
        expect(end_part.locator(".line")).to_have_count(number + 1)
        box, last = end_part.bounding_box(), end_part.locator(".line").last.bounding_box()
        assert abs(box["y"] + box["height"] - last["y"] - last["height"]) <= 2
        heading = end_part.locator(".group").bounding_box()
        assert heading["y"] - box["y"] <= 2  # nor above it: what waits has all the rest
    expect(end_part.locator(".line").first).to_contain_text("Denied")
    assert end_part.locator("[data-card]").first.get_attribute("data-card") == card(page, f"{run}-2").get_attribute(
        "id"
    )
    withdraw_all(server)


def test_on_a_phone_the_note_about_an_answer_covers_neither_the_card_nor_its_buttons(
    server: Server, visit: Open, run: str
) -> None:
    withdraw_all(server)
    for number in range(2):
        ask(server, run, f"{run}-{number}")
    page = visit("/approvals/", viewport={"width": 360, "height": 640}, has_touch=True)
    card(page, f"{run}-0").locator("button[value=deny]").click()
    expect(page.locator("#toast")).to_contain_text("Denied")
    note, card_box = page.locator("#toast").bounding_box(), card(page, f"{run}-1").bounding_box()
    assert note["y"] + note["height"] <= card_box["y"]
    stepper = page.locator(".stepper").bounding_box()
    assert note["y"] + note["height"] <= stepper["y"]
    withdraw_all(server)


@pytest.mark.parametrize("path", ["/calls/tools/", "/calls/agents/", "/settings/people/", "/policy/versions/", "steps"])
def test_a_phone_shows_whole_rows_of_a_table(server: Server, visit: Open, run: str, path: str) -> None:
    tell(server, run, *[frame for number in range(3) for frame in build_done_call(f"c{number}")])
    address = f"{path_of(run)}?tab=steps" if path == "steps" else path
    page = visit(address, viewport={"width": 360, "height": 740})
    assert page.locator(".table").first.evaluate("table => table.scrollWidth <= table.clientWidth")
    expect(page.locator(".table tbody tr").first).to_be_visible()


def test_the_tabs_of_a_phone_have_names(server: Server, visit: Open) -> None:
    page = visit("/", viewport={"width": 320, "height": 640})
    for name in ("Now", "Approvals", "Runs", "Calls", "Policy", "Agents"):
        word = page.locator(".side .nav:not(.second) a span:not(.count)", has_text=name)
        box = word.bounding_box()
        assert box["width"] >= 12 and box["height"] >= 10 and box["x"] >= 0 and box["x"] + box["width"] <= 320, name


@pytest.mark.parametrize("width", [1280, 390])
def test_the_frame_of_a_page_has_at_most_ten_controls_and_settings_lead_to_all_else(
    server: Server, visit: Open, width: int
) -> None:
    page = visit("/calls/", viewport={"width": width, "height": 800})
    frame = ":is(.side, .phone-foot) :is(a, button):visible"
    assert page.locator(frame).count() <= 10
    page.locator(frame).get_by_text("Settings", exact=True).click()
    expect(page.locator("h1")).to_have_text("Settings")
    for name in ("Password", "Personal tokens", "People", "Notifications", "Audit", "Pause approvals", "Stop all"):
        link = page.locator("main .places a", has_text=name).first
        assert page.request.get(server.base + str(link.get_attribute("href"))).ok, name
    page.get_by_role("button", name="Switch theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
