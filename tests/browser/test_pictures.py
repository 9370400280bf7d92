"""Pictures as tables: what a reader has opened stays open when the picture is redrawn."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browser_pages import NEEDS_BROWSER, Open, path_of, tell
from tests.support.server import Server

pytestmark = NEEDS_BROWSER


def made(number: int) -> dict[str, Any]:
    return {"type": "tool.input.available", "call_id": f"p{number}", "tool": "Read", "input": {"n": number}}


def test_the_tables_of_pictures_stay_open_while_calls_come(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[made(number) for number in range(3)])
    drawn = {"/": "#minutes-table", f"{path_of(run)}?tab=timeline": "#timeline-table"}
    for more, (path, fold) in enumerate(drawn.items(), 3):
        page = visit(path)
        page.locator(f"{fold} > summary").click()
        before = page.locator(fold).inner_text()
        tell(server, run, made(more))
        page.wait_for_function(
            "([fold, before]) => document.querySelector(fold).innerText !== before", arg=[fold, before]
        )
        assert page.locator(fold).get_attribute("open") is not None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_overview_and_its_table_pass_the_accessibility_check(
    server: Server, visit: Open, run: str, scheme: Any
) -> None:
    axe_module = pytest.importorskip("axe_playwright_python.sync_playwright")
    tell(server, run, *[made(number) for number in range(320)])
    entries = []
    for path, folds in (
        (f"{path_of(run)}?tab=timeline", ("#map-table", "#timeline-table")),
        ("/", ("#minutes-table",)),
    ):
        page = visit(path, color_scheme=scheme, reduced_motion="reduce")
        for fold in folds:
            page.locator(f"{fold} > summary").click()
        broken = axe_module.Axe().run(page).response["violations"]
        entries += [(path, one["id"], one["nodes"][0]["html"][:200]) for one in broken]
    assert not entries


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
    assert page.locator(".chosen").count() == 0
    page.mouse.up()
    assert "start=" not in page.url
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"], middle, steps=4)
    page.mouse.up()
    page.wait_for_url("**start=*")
    page.wait_for_selector("a[data-whole]")
    page.keyboard.press("Escape")
    page.wait_for_function("!location.search.includes('start=')")
