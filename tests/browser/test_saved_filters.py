"""Saved filters in a browser: the list under one stays live, and many of them fit every screen."""

from __future__ import annotations

import pytest

from tests.support.browser_pages import NEEDS_BROWSER, Open, card, expect, tell
from tests.support.server import Server

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]


def save(page: object, name: str) -> None:
    page.click(".saved-change > summary")  # type: ignore[attr-defined]
    page.fill(".saved-change [name=name]", name)  # type: ignore[attr-defined]
    page.click(".saved-change button:has-text('Save')")  # type: ignore[attr-defined]
    page.wait_for_selector(".saved a[aria-current]:not(:text-is('All'))")  # type: ignore[attr-defined]


def test_the_list_under_a_saved_filter_takes_in_new_calls(server: Server, visit: Open, run: str) -> None:
    page = visit("/calls/?tool=Launch")
    save(page, "Launches")
    page.wait_for_selector("body[data-live=up]")
    page.check("[data-follow]")
    for tool in ("Read", "Launch"):
        tell(server, run, {"type": "tool.input.started", "call_id": f"{run}-{tool}", "tool": tool})
    page.wait_for_selector(f"article[data-call-id='{run}-Launch']")
    assert card(page, f"{run}-Read").count() == 0
    page.uncheck("[data-follow]")


def test_twenty_long_names_fit_every_screen_without_script(server: Server, visit: Open) -> None:
    statuses = ("waiting", "running", "finished", "error", "aborted")
    names = [f"{number} a name as long as it may be, which is sixty characters, yes"[:60] for number in range(20)]
    queries = [f"status={statuses[number % 5]}&agent=agent-{number}" for number in range(20)]
    page = visit(f"/runs/?{queries[-1]}", live=False, java_script_enabled=False)
    form = {"page": "runs", "csrfmiddlewaretoken": page.locator("[name=csrfmiddlewaretoken]").first.input_value()}
    for name, query in zip(names[:-1], queries[:-1], strict=True):
        answer = page.request.post(f"{server.base}/filters/", form=form | {"name": name, "query": query})
        assert answer.ok and name in answer.text()
    page.reload()
    save(page, names[-1])
    expect(page.locator(".saved a")).to_have_count(21)
    page.click(".saved-change > summary")
    for width in (320, 390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 700})
        expect(page.locator("button:has-text('Rename')")).to_be_visible()
        expect(page.locator("button:has-text('Delete')")).to_be_visible()
        nav = page.locator(".saved > nav").bounding_box()
        assert nav["x"] >= 0 and nav["x"] + nav["width"] <= width
        assert page.locator("html").bounding_box()["width"] <= width
