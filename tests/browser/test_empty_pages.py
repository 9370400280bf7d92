"""The pages of a new server, on which nothing has happened yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.accessibility import find_violations
from tests.support.browser_pages import NEEDS_BROWSER, Open, expect
from tests.support.server import Server

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]

NEXT_STEPS = {
    "/": "/connect/", "/runs/": "/connect/", "/calls/": "/connect/", "/calls/tools/": "/connect/",
    "/calls/agents/": "/connect/", "/approvals/": "/policy/#ask",
}  # fmt: skip
OTHERS = (
    "/approvals/history/", "/policy/", "/policy/suggestions/", "/policy/reviewers/", "/policy/grants/",
    "/settings/breakglass/",
    "/settings/killswitch/", "/settings/notify/", "/settings/audit/", "/sources/", "/connect/",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a separate server, without a call of another test."""
    data: Path = tmp_path_factory.mktemp("empty")
    with Server(data) as running:
        yield running


@pytest.mark.parametrize("width", [320, pytest.param(1280, marks=pytest.mark.sweep)])
def test_pages_without_calls_fit_and_lead_on(server: Server, visit: Open, width: int) -> None:
    page = visit("/", viewport={"width": width, "height": 800})
    for path in (*NEXT_STEPS, *OTHERS):
        page.goto(server.base + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert not find_violations(page), path
        if path in NEXT_STEPS:
            expect(page.locator(f"main .empty a[href='{NEXT_STEPS[path]}']")).to_be_visible()


def test_the_button_to_add_a_rule_is_whole_on_a_phone(server: Server, visit: Open) -> None:
    page = visit("/policy/", viewport={"width": 320, "height": 640})
    button = page.get_by_role("button", name="Add rule").bounding_box()
    assert button["x"] >= 0 and button["x"] + button["width"] <= 320


def test_the_policy_page_says_that_the_record_suggests_nothing_yet(server: Server, visit: Open) -> None:
    page = visit("/policy/")
    expect(page.locator("#suggestions")).to_contain_text("A suggestion needs 5 approvals")
