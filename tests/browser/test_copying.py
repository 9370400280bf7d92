"""Links that copy a call's text, with and without a clipboard."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.support.browser_pages import NEEDS_BROWSER, Open, tell
from tests.support.server import Server, until

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]
CLIPBOARD = ["clipboard-read", "clipboard-write"]
READ_CLIPBOARD = "navigator.clipboard.readText()"


def find_call_path(server: Server, run: str) -> str:
    tell(server, run, {"type": "tool.input.available", "call_id": "c", "tool": "Read", "input": {"path": "a"}})
    (call,) = server.get(f"/api/v1/runs/{quote(run, safe='')}/calls")["calls"]
    return f"/calls/{call['id']}/"


def test_a_press_copies_the_call_and_stays_on_the_page(server: Server, visit: Open, run: str) -> None:
    path = find_call_path(server, run)
    page = visit(path, permissions=CLIPBOARD)
    page.click("text=Copy Markdown")
    page.wait_for_selector("#toast:has-text('Copied')")
    text = page.evaluate(READ_CLIPBOARD)
    assert text.startswith("### `Read a`") and f"- Page: <{server.base}{path}>\n" in text
    page.click("text=Copy JSON")
    until(lambda: page.evaluate(READ_CLIPBOARD).startswith("{"))
    assert json.loads(page.evaluate(READ_CLIPBOARD))["call_id"] == "c"
    page.click("text=Copy curl")
    until(lambda: page.evaluate(READ_CLIPBOARD).startswith("curl "))
    assert f"{server.base}/api/v1/calls/decide <<'JSON'\n" in page.evaluate(READ_CLIPBOARD)
    assert page.url.endswith(path)


def test_without_a_clipboard_a_press_opens_the_text(server: Server, visit: Open, run: str) -> None:
    path = find_call_path(server, run)
    page = visit(path, permissions=[])
    page.evaluate("() => { navigator.clipboard.write = () => Promise.reject(new Error('no')); }")
    page.click("text=Copy Markdown")
    page.wait_for_url("**/call.md")
    assert "### `Read a`" in page.inner_text("body")


def test_a_snippet_is_copied_whole_or_selected_where_there_is_no_clipboard(visit: Open) -> None:
    page = visit("/connect/", permissions=CLIPBOARD)
    snippet, copy = page.locator(".snippet pre").last, page.locator(".snippet [data-copy-text]").last
    copy.click()
    page.wait_for_selector("#toast:has-text('Copied')")
    assert page.evaluate(READ_CLIPBOARD) == snippet.text_content()
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
    copy.click()
    page.wait_for_selector("#toast:has-text('Selected')")
    assert page.evaluate("getSelection().toString().trim()") == snippet.inner_text().strip()
