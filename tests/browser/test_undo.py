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


def test_a_lasting_answer_takes_one_press_and_its_undo_takes_the_rule_away(
    server: Server, visit: Open, run: str
) -> None:
    def decide(number: int) -> dict[str, Any]:
        body = {"run": run, "call_id": f"{run}-{number}", "tool": f"reply_{run.replace('/', '_')}", "args": {"id": 1}}
        return dict(server.request("POST", "/api/v1/calls/decide", body)[1])

    assert decide(1)["decision"] == "ask"
    page = visit("/approvals/")
    armed(page, f"{run}-1")
    card(page, f"{run}-1").locator("button[popovertarget$=-always]").click()
    page.wait_for_selector("small.covered:has-text('past calls')")
    card(page, f"{run}-1").locator("button[name=always][value='always:tool:any']").click()
    page.wait_for_selector("#toast:has-text('Approved, and won’t ask again') >> text=Undo")
    again = decide(2)
    assert again["decision"] == "allow" and again["by"]["name"].startswith("always-reply-")
    page.keyboard.press("z")
    in_state(page, "output-denied", f"{run}-1")
    assert decide(3)["decision"] == "ask"
