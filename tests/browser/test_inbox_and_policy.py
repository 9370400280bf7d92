"""People at their pages, in a real browser: answering a live call, and everything that must work without scripts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser_pages import NEEDS_BROWSER, Desk, expect
from tests.support.server import Server, until

pytestmark = NEEDS_BROWSER
_numbers = itertools.count(1)


@pytest.fixture
def page(desk: Desk, server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page of the admin, signed in; without scripts for tests marked so."""
    how = {"java_script_enabled": False} if "no_scripts" in request.fixturenames else {}
    desk_page = desk.open_page(server, how)
    desk_page.faults = []

    def note_error(message: Any) -> None:
        if message.type == "error":
            desk_page.faults.append(message.text)

    desk_page.on("console", note_error)
    yield desk_page
    desk_page.remove_listener("console", note_error)
    desk.put_back(desk_page.context, server, how)


@pytest.fixture
def no_scripts() -> None:
    """Marks a test whose browser runs no scripts."""


def ask_about_edit(server: Any, run: str) -> dict[str, Any]:
    """Ask for a call that the starter policy asks about."""
    body = {"run": run, "call_id": f"{run}-call", "tool": "Edit", "args": {"path": "a.py"}}
    status, decision, _ = server.request("POST", "/api/v1/calls/decide", body)
    assert status == 200 and decision["decision"] == "ask", decision
    return dict(decision)


def answer(server: Any, payload: dict[str, Any]) -> Any:
    """Return the approval as the agent reads it now."""
    approval = server.get(f"/api/v1/approvals/{payload['approval']['id']}")
    return approval if approval["decision"] != "ask" else None


def a_name() -> str:
    return f"browser-{next(_numbers)}"


def test_a_call_that_comes_while_one_looks_is_approved_without_reload(page: Any, server: Any) -> None:
    page.goto(f"{server.base}/approvals/")
    page.wait_for_selector("body[data-live=up]")
    page.evaluate("window.same = true")
    run = a_name()
    result = ask_about_edit(server, run)
    card = page.locator(f'article[data-call-id="{run}-call"]')
    card.wait_for()
    button = card.locator("button[name=decision][value=approve]")
    button.click()
    page.wait_for_selector(f'article[data-call-id="{run}-call"]:not([data-state="approval-requested"])')
    outcome = until(lambda: answer(server, result))
    assert (outcome["decision"], outcome["by"]["kind"], outcome["by"]["name"]) == ("allow", "human", "admin")
    assert page.evaluate("window.same") is True and not page.faults


def test_an_agent_on_a_socket_gets_the_denial_and_its_reason(page: Any, server: Any) -> None:
    page.goto(f"{server.base}/approvals/")
    run = a_name()
    frame = {"type": "tool.input.available", "call_id": f"{run}-call", "tool": "Edit", "input": {"path": "b.py"}}
    with server.socket(protocol="native", run=run, agent="bot", mode="gate") as agent:
        agent.send(json.dumps(frame))
        card = page.locator(f'article[data-call-id="{run}-call"]')
        card.locator("[name=reason]").fill("not this file")
        card.locator("button[name=decision][value=deny]").click()
        for message in agent:
            payload = json.loads(message)
            if payload["type"] == "decision" and payload["decision"] != "ask":
                break
    assert payload["decision"] == "deny" and "not this file" in payload["reason"]["text"]


def test_without_scripts_a_call_is_denied_with_a_reason(no_scripts: None, page: Any, server: Any) -> None:
    run = a_name()
    result = ask_about_edit(server, run)
    page.goto(f"{server.base}/approvals/")
    card = page.locator(f'article[data-call-id="{run}-call"]')
    card.locator("[name=reason]").fill("no scripts, no edit")
    with page.expect_navigation():
        card.locator("button[name=decision][value=deny]").click()
    assert page.url == f"{server.base}/approvals/"
    expect(page.locator(f'article[data-call-id="{run}-call"]')).to_have_count(0)
    outcome = answer(server, result)
    assert outcome["decision"] == "deny" and "no scripts, no edit" in outcome["reason"]["text"]
    page.goto(f"{server.base}/approvals/history/")
    expect(page.get_by_text("no scripts, no edit")).to_have_count(1)


def test_without_scripts_a_rule_is_published(no_scripts: None, page: Any, server: Any) -> None:
    tool = a_name()
    page.goto(f"{server.base}/policy/")
    with page.expect_navigation():
        page.get_by_role("button", name="Add rule").click()
    page.check("[name=effect][value=deny]")
    page.fill("[name=tool]", tool)
    page.fill("[name=reason]", "Nobody needs this tool.")
    with page.expect_navigation():
        page.get_by_role("button", name="Save rule").click()
    expect(page.locator('.rule[data-change="added"]')).to_have_count(1)
    with page.expect_navigation():
        page.get_by_role("button", name="Activate").click()
    expect(page.locator(".model")).to_have_count(1)
    assert page.url == f"{server.base}/policy/"
    body = {"run": tool, "call_id": "one", "tool": tool, "args": {}}
    _, decision, _ = server.request("POST", "/api/v1/calls/decide", body)
    assert (decision["decision"], decision["reason"]["text"]) == ("deny", "Nobody needs this tool.")


def test_what_would_change_is_shown_for_the_last_choice_however_quick_it_was(page: Any, server: Any) -> None:
    run = a_name()
    ask_about_edit(server, run)
    call = server.get(f"/api/v1/runs/{run}/calls")["calls"][0]["id"]
    page.goto(f"{server.base}/calls/{call}/rule/")
    expect(page.locator("#rule-blast .sentence")).to_contain_text("No past call would change")
    choices = [["effect", "allow"], ["scope", "all"], ["expiry", "never"], ["effect", "deny"]]
    page.evaluate(
        "choices => choices.forEach(([name, value]) => document.querySelector("
        "`.ladder [name=${name}][value=${value}]`).click())",
        choices,
    )
    expect(page.locator("#rule-blast .change").first).to_have_attribute("data-to", "deny")
    expect(page.locator("[name=effect][value=deny]")).to_be_checked()


def test_trying_a_call_answers_in_place(page: Any, server: Any) -> None:
    page.goto(f"{server.base}/policy/")
    page.fill(".try [name=tool]", "Edit")
    page.fill(".try [name=args]", '{"path": "a.py"}')
    page.get_by_role("button", name="Try", exact=True).click()
    page.wait_for_selector('#trial [data-verdict="ask"]')
    assert page.url == f"{server.base}/policy/" and not page.faults


def test_a_sentence_changes_its_effect_in_place_and_the_bar_discards_it(page: Any, server: Any) -> None:
    page.goto(f"{server.base}/policy/")
    rule = page.locator('.rule[data-rule="ask-delete"]')
    with page.expect_navigation():
        rule.locator("select[name=effect]").select_option("deny")
    expect(page.locator('#deny .rule[data-rule="ask-delete"]')).to_have_attribute("data-change", "changed")
    bar = page.locator(".change-bar")
    expect(bar).to_be_in_viewport()
    with page.expect_navigation():
        bar.get_by_role("button", name="Discard").click()
    expect(page.locator('#ask .rule[data-rule="ask-delete"]')).to_have_count(1)
    expect(bar).to_have_count(0)
    assert not page.faults
