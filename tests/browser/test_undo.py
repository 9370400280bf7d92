"""An approval can be undone until its agent has it, on a server that holds nothing back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browser_pages import Open, armed, ask, card, expect, in_state
from tests.support.server import Server

pytestmark = pytest.mark.browser


def approve(page: Any, call_id: str) -> None:
    armed(page, call_id)
    card(page, call_id).locator("button[value=approve]").click()
    page.wait_for_selector("#toast:has-text('Approved') >> text=Undo")


def test_an_approval_is_undone_before_its_agent_fetches_it(server: Server, visit: Open, run: str) -> None:
    decision = ask(server, run, f"{run}-1")
    page = visit("/approvals/")
    approve(page, f"{run}-1")
    page.keyboard.press("z")
    in_state(page, "output-denied", f"{run}-1")
    answer = server.get(f"/api/v1/approvals/{decision['approval']['id']}")
    assert (answer["decision"], answer["permit"], answer["by"]["name"]) == ("deny", None, "admin")


def test_the_offer_to_undo_ends_once_the_agent_has_the_answer(server: Server, visit: Open, run: str) -> None:
    decision = ask(server, run, f"{run}-1")
    page = visit("/approvals/")
    page.keyboard.press("z")
    expect(page.locator("#toast")).to_have_text("Nothing to undo.")
    approve(page, f"{run}-1")
    answer = server.get(f"/api/v1/approvals/{decision['approval']['id']}")
    assert answer["decision"] == "allow" and answer["permit"]
    page.wait_for_selector("#toast", state="hidden")
    expect(card(page, f"{run}-1").locator("form.undo")).to_have_count(0)
    page.keyboard.press("z")
    for place in ("#toast", "#say"):
        expect(page.locator(place)).to_have_text("Too late to undo: the agent has the answer.")
