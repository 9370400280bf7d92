"""Answering in a real browser: two presses where the risk is high, undo, groups of risk, and switches on open pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser_pages import (
    NEEDS_BROWSER,
    Desk,
    Open,
    armed,
    ask,
    card,
    expect,
    in_state,
    let_pass,
    path_of,
    watch_posts,
    withdraw_all,
)
from tests.support.server import Server, until

pytestmark = NEEDS_BROWSER
TWICE = "button => { button.click(); button.click(); return button.innerText; }"  # as fast as a double click can be
# As slow as two presses are, and faster than the question goes back: timers fire in their order, however late.
# Where the first press is enough, the answered card has no button for the second.
TWO_PRESSES = """button => new Promise(done => {
  button.click();
  setTimeout(() => { if (button.isConnected) button.click(); done(); }, 600);
})"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that holds approvals back for so long that a test is surely faster."""
    data: Path = tmp_path_factory.mktemp("answering")
    with Server(data, handover_seconds=900) as running:
        yield running


def ask_to_delete(server: Server, run: str, call_id: str) -> dict[str, Any]:
    """Ask for a call that the starter policy asks about with a high severity."""
    body = {"run": run, "call_id": call_id, "tool": "delete_file", "args": {"path": "a.py"}}
    status, decision, _ = server.request("POST", "/api/v1/calls/decide", body)
    assert status == 200 and decision["decision"] == "ask", decision
    return dict(decision)


def approve(page: Any, call_id: str) -> Any:
    return card(page, call_id).locator("button[value=approve]")


# ---------------------------------------------------------------- two presses


def test_a_high_risk_takes_two_presses(server: Server, visit: Open, run: str) -> None:
    ask_to_delete(server, run, "d1")
    page = visit(path_of(run))
    posted = watch_posts(page)
    armed(page, "d1")
    assert "Approve delete_file?" in approve(page, "d1").evaluate(TWICE)  # a double click is one press
    assert not posted and card(page, "d1").get_attribute("data-state") == "approval-requested"
    approve(page, "d1").evaluate(TWO_PRESSES)  # the first one is enough, unless the approval is pending again
    in_state(page, "approval-responded", "d1")
    assert posted


def test_the_question_goes_back_by_itself(server: Server, visit: Open, run: str) -> None:
    ask_to_delete(server, run, "d2")
    page = visit(path_of(run))
    armed(page, "d2")
    assert "Approve delete_file?" in approve(page, "d2").evaluate(TWICE)
    page.wait_for_selector("article[data-call-id=d2] button[value=approve]:not([data-asking])")
    assert "Approve delete_file?" not in approve(page, "d2").inner_text()


def test_a_high_risk_is_denied_in_one_press(server: Server, visit: Open, run: str) -> None:
    ask_to_delete(server, run, "d3")
    page = visit(path_of(run))
    card(page, "d3").locator("button[value=deny]").click()
    in_state(page, "output-denied", "d3")


def test_the_approving_button_never_has_the_focus_by_itself(server: Server, visit: Open, run: str) -> None:
    ask_to_delete(server, run, "d4")
    page = visit("/approvals/")
    armed(page, "d4")
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.tagName") == "ARTICLE"


def test_without_scripts_a_high_risk_takes_a_tick_and_a_press(server: Server, visit: Open, run: str) -> None:
    ask_to_delete(server, run, "d5")
    page = visit(path_of(run), live=False, java_script_enabled=False)
    posted = watch_posts(page)
    approve(page, "d5").click()  # the browser asks for the tick and sends nothing
    page.goto(server.base + path_of(run))
    assert not posted and card(page, "d5").get_attribute("data-state") == "approval-requested"
    card(page, "d5").locator("[name=sure]").check()
    with page.expect_navigation():
        approve(page, "d5").click()
    page.goto(server.base + path_of(run))
    assert card(page, "d5").get_attribute("data-state") == "approval-responded"


def test_without_scripts_a_high_risk_is_denied_without_a_tick(server: Server, visit: Open, run: str) -> None:
    ask_to_delete(server, run, "d6")
    page = visit(path_of(run), live=False, java_script_enabled=False)
    with page.expect_navigation():
        card(page, "d6").locator("button[value=deny]").click()
    page.goto(server.base + path_of(run))
    assert card(page, "d6").get_attribute("data-state") == "output-denied"


# ---------------------------------------------------------------- undo


def test_z_undoes_the_last_approval_before_the_agent_gets_it(server: Server, visit: Open, run: str) -> None:
    decision = ask(server, run, "u1")
    page = visit(path_of(run))
    armed(page, "u1")
    card(page, "u1").locator("button[value=approve]").click()
    in_state(page, "approval-responded", "u1")
    assert server.get(f"/api/v1/approvals/{decision['approval']['id']}")["decision"] == "ask"
    page.keyboard.press("z")
    in_state(page, "output-denied", "u1")
    approval = server.get(f"/api/v1/approvals/{decision['approval']['id']}")
    assert (approval["decision"], approval["permit"], approval["by"]["name"]) == ("deny", None, "admin")


def test_undo_works_without_scripts(server: Server, visit: Open, run: str) -> None:
    ask(server, run, "u2")
    page = visit(path_of(run), live=False, java_script_enabled=False)
    with page.expect_navigation():
        card(page, "u2").locator("button[value=approve]").click()
    page.goto(server.base + path_of(run))
    with page.expect_navigation():
        card(page, "u2").locator("button[data-undo]").click()
    assert page.url.startswith(f"{server.base}/runs/")  # back to the page that the form stood on
    assert card(page, "u2").get_attribute("data-state") == "output-denied"


# ---------------------------------------------------------------- the inbox


def test_the_risky_come_first_as_they_arrive(server: Server, visit: Open, run: str) -> None:
    ask(server, run, f"{run}-m")
    page = visit("/approvals/")
    page.wait_for_selector(f"article[data-call-id='{run}-m']")
    ask_to_delete(server, run, f"{run}-h")
    page.wait_for_selector(f"article[data-call-id='{run}-h']")
    ids = page.evaluate("[...document.querySelectorAll('article.card')].map(card => card.dataset.callId)")
    assert ids.index(f"{run}-h") < ids.index(f"{run}-m")
    heads = page.locator("#queue .group:visible b")
    until(lambda: heads.all_inner_texts()[:2] == ["High risk", "Medium risk"])
    expect(page.locator("#queue .group:has-text('High risk') + .line [data-risk=high]")).to_have_count(1)


def test_a_risky_arrival_is_said_though_others_wait(server: Server, visit: Open, run: str) -> None:
    ask(server, run, f"{run}-1")
    page = visit("/policy/")
    until(lambda: page.locator("#waiting-count").get_attribute("data-newest"))
    ask_to_delete(server, run, f"{run}-2")
    alert = until(lambda: "Delete " in (text := page.locator("#alert").inner_text()) and text)
    assert "high risk" in alert


def test_half_a_minute_before_its_end_a_question_is_said_once(server: Server, visit: Open, run: str) -> None:
    ask(server, run, "t1")
    page = visit(path_of(run))
    armed(page, "t1")
    page.evaluate(
        """() => {
          window.said = [];
          const alert = document.getElementById('alert');
          new MutationObserver(() => { if (alert.textContent.includes('seconds left')) said.push(alert.textContent); })
            .observe(alert, {childList: true, characterData: true, subtree: true});
          document.querySelector("article[data-call-id=t1] .countdown time").dataset.until = Date.now() / 1000 + 25;
        }"""
    )
    until(lambda: page.evaluate("said.length"))
    expect(page.locator("article[data-call-id=t1] .countdown.last")).to_have_count(1)
    time = page.locator("article[data-call-id=t1] .countdown time")
    shown_text = time.inner_text()
    expect(time).not_to_have_text(shown_text)  # the clock went on
    assert page.evaluate("said.length") == 1 and "Edit" in page.evaluate("said[0]")


def test_an_approval_is_taken_back_from_the_note_about_it(server: Server, visit: Open, run: str) -> None:
    ask(server, run, f"{run}-1")
    ask(server, run, f"{run}-2")
    page = visit("/approvals/")
    armed(page, f"{run}-1")
    card(page, f"{run}-1").focus()
    page.keyboard.press("a")
    page.wait_for_selector("#toast:has-text('Approved') >> text=Undo")
    page.keyboard.press("z")  # although the page now shows another call
    in_state(page, "output-denied", f"{run}-1")
    expect(page.locator("#toast")).to_contain_text("Undone, denied")
    expect(page.locator("#say")).to_have_text("Undone. The call is denied.")
    page.keyboard.press("z")
    expect(page.locator("#toast")).to_have_text("A denial cannot be undone.")


def test_a_refused_undo_is_not_called_undone(server: Server, desk: Desk, run: str) -> None:
    withdraw_all(server)  # else the page turns to a call of another test
    ask(server, run, f"{run}-1")
    context = desk.browser.new_context(storage_state=desk.sign_in(server))
    page = context.new_page()  # the console of `visit` may not name errors, and this one is wanted
    page.goto(f"{server.base}/approvals/")
    armed(page, f"{run}-1")
    card(page, f"{run}-1").locator("button[value=approve]").click()
    page.wait_for_selector("#toast:has-text('Approved') >> text=Undo")
    page.evaluate(
        "window.said = []; new MutationObserver(() => said.push(document.getElementById('say').textContent))"
        ".observe(document.getElementById('say'), {childList: true})"
    )
    context.clear_cookies()  # the form may have a token or not: the card comes by the socket and by the answer
    with page.expect_response("**/undo") as answer:
        page.keyboard.press("z")
    assert answer.value.status == 403
    expect(page.locator("#alert")).to_have_text("The server sent an unexpected answer. Reload the page.")
    let_pass(page, 100)  # `say` speaks after 50 ms
    assert card(page, f"{run}-1").get_attribute("data-state") == "approval-responded"
    assert not [text for text in page.evaluate("said") if "Undone" in text]
    expect(page.locator("#toast")).not_to_contain_text("Undone")
    context.close()


# ---------------------------------------------------------------- switches


def test_switches_thrown_in_another_process_show_on_open_pages(server: Server, visit: Open) -> None:
    pages = [visit(path) for path in ("/", "/policy/", "/settings/audit/")]
    for page in pages:
        page.evaluate("window.same = true")
    try:
        assert server.manage("killswitch", "on", "--reason", "a drill").returncode == 0
        for page in pages:
            expect(page.locator("[data-killswitch=on]")).to_contain_text("a drill")
            expect(page.locator(".side .stop-all")).to_be_hidden()
    finally:
        assert server.manage("killswitch", "off").returncode == 0
    for page in pages:
        page.wait_for_selector("[data-killswitch]", state="detached")
        expect(page.locator(".side .stop-all")).to_be_visible()
        assert page.evaluate("window.same")


def test_break_glass_shows_on_an_open_run_page(server: Server, visit: Open, run: str) -> None:
    ask(server, run)
    page = visit(path_of(run))
    try:
        completed = server.manage("breakglass", "on", "--reason", "a fire", "--minutes", "5")
        assert completed.returncode == 0, completed.stderr
        page.wait_for_selector("[data-breakglass=on]")
    finally:
        server.manage("breakglass", "off")
    page.wait_for_selector("[data-breakglass]", state="detached")
