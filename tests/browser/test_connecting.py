"""The connect page in a real browser: its checklist updates without a reload while an agent connects."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest

from tests.support.accessibility import find_violations
from tests.support.browser_pages import NEEDS_BROWSER, Open, expect
from tests.support.server import PATIENCE, Server
from toolcards.connect import probe as probing

pytestmark = NEEDS_BROWSER


def ticked(page: Any, *steps: str) -> None:
    for step in steps:
        page.wait_for_selector(f"[data-step={step}][data-done=yes]")


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_the_steps_are_ticked_while_an_agent_is_connected(server: Server, visit: Open, answer: str) -> None:
    name = f"shop-{uuid.uuid4().hex[:6]}"
    page = visit(f"/connect/ai-sdk/?source={name}")
    page.evaluate("window.same = true")
    expect(page.locator("[data-step][data-done=no]")).to_have_count(4)
    key = server.manage("agentkey", "create", name).stdout.split()[-1]
    ticked(page, "key")

    outcomes: list[str] = []
    fields = {"agent": name, "wait": 2 * PATIENCE, "transport": "http"}
    probe = threading.Thread(
        target=lambda: outcomes.append(probing.probe(server.base, key, lambda value: None, **fields))
    )
    probe.start()
    ticked(page, "event", "held")
    run = page.locator("[data-step=held] a", has_text="show").get_attribute("href")
    inbox = visit(run)
    inbox.locator(f"article[data-waiting] button[value={answer}]:not([aria-disabled])").click()
    ticked(page, "released")
    probe.join()
    assert outcomes == [{"approve": "approved", "deny": "denied"}[answer]]
    assert page.evaluate("window.same") is True


def test_a_key_created_on_the_page_is_filled_into_the_command(visit: Open) -> None:
    page = visit("/connect/claude-code/")
    page.get_by_role("button", name="Create key for Claude Code").click()
    secret = page.locator("[data-secret]").inner_text()
    expect(page.locator("[data-snippet=command] pre")).to_contain_text(f"--key {secret}")
    ticked(page, "key")


@pytest.mark.sweep
def test_the_pages_pass_the_accessibility_check(server: Server, visit: Open) -> None:
    frame = {"type": "tool.input.available", "call_id": "c", "tool": "Read", "input": {}}
    server.request("POST", "/api/v1/ingest?protocol=native&run=connecting", [frame])
    page = visit("/sources/", reduced_motion="reduce")
    source = page.locator("table.sources a", has_text="automation").get_attribute("href")
    violations = {}
    for path in ("/connect/", "/connect/ai-sdk/", "/connect/claude-code/?source=automation", source):
        page.goto(server.base + path)
        page.wait_for_selector("body[data-live=up]")
        violations[path] = find_violations(page)
    assert not any(violations.values()), violations
