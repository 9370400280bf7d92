"""Live cards in a real browser: every state without a reload, nothing lost while reading, and back after a restart."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.accessibility import find_violations
from tests.support.browser_pages import (
    NEEDS_BROWSER,
    STOP_THE_CLOCK,
    Open,
    armed,
    ask,
    card,
    expect,
    in_state,
    path_of,
    patient,
    tell,
    waiting,
    watch_posts,
)
from tests.support.server import PATIENCE, Server, until

pytestmark = NEEDS_BROWSER

# Puts the card's own markup back as a push would, with the next revision.
PUSH = """(times) => (async () => {
  const card = document.querySelector('article.card');
  for (let n = 0; n < times; n++) {
    const copy = card.cloneNode(true);
    copy.dataset.rev = +card.dataset.rev + 1;
    for (const input of copy.querySelectorAll('input[name=reason]')) input.removeAttribute('value');
    for (const fold of copy.querySelectorAll('details')) fold.removeAttribute('open');
    const text = `<hx-partial hx-target="#board" hx-swap="place">${copy.outerHTML}</hx-partial>`;
    await htmx.swap({sourceElement: document.body, target: document.body, swap: 'none', text, transition: false});
  }
})()"""


# Returns the revision and the text that a card shows while its input streams.
DESCRIBE_CARD = r"""() => {
  const card = document.querySelector('article.card');
  return [card.dataset.rev, card.dataset.seq, card.querySelector('.writing').outerHTML.replace(/\s+/g, ' ')];
}"""


# Clicks a card's button 100 ms after the card appears.
CLICK_AS_IT_COMES = """(id) => {
  window.clicked = false;
  new MutationObserver((_, observer) => {
    const button = document.querySelector(`article[data-call-id='${id}'] button[value=approve]`);
    if (!button) return;
    observer.disconnect();
    setTimeout(() => { button.click(); setTimeout(() => { window.clicked = true; }, 400); }, 100);
  }).observe(document.body, {childList: true, subtree: true});
}"""


# ---------------------------------------------------------------- what people see


def test_an_input_grows_by_pieces_and_a_page_that_missed_one_gets_the_card(
    server: Server, visit: Open, run: str
) -> None:
    with server.socket(protocol="native", run=run, agent="bot", mode="observe") as agent:

        def send(kind: str, **content: str) -> None:
            agent.send(json.dumps({"type": f"tool.input.{kind}", "call_id": "c1", **content}))
            agent.recv(PATIENCE)

        send("started", tool="Write")
        send("delta", delta="one")
        page = visit(path_of(run))
        text = page.locator(".writing .text")
        expect(text).to_have_text("one")
        pieces = ((" two", "one two"), (" <b>\u202e", "one two <b>U+202E"), ("😀", "one two <b>U+202E😀"))
        for piece, shown_text in pieces:
            send("delta", delta=piece)
            expect(text).to_have_text(shown_text)
        expect(page.locator(".writing .size")).to_have_text("13 characters so far")
        page.evaluate("document.querySelector('.writing').dataset.size = '3'")  # as if it had missed a piece
        send("delta", delta=" end ")
        expect(text).to_have_text("one two <b>U+202E😀 end ")
        send("delta", delta="x " * 350)
        send("delta", delta="y " * 350)
        expect(text).to_have_text("…" + "x " * 250 + "y " * 350)
        grown_card = page.evaluate(DESCRIBE_CARD)
        page.reload()
        assert page.evaluate(DESCRIBE_CARD) == grown_card


def test_each_state_comes_without_a_reload(server: Server, visit: Open, run: str) -> None:
    with server.socket(protocol="native", run=run, agent="bot", mode="observe") as agent:
        agent.send(json.dumps({"type": "run.started", "agent": "bot"}))
        agent.recv(PATIENCE)
        page = visit(path_of(run))
        page.evaluate("window.sameSession = true")
        steps = [
            ({"type": "tool.input.started", "call_id": "c1", "tool": "Bash"}, "input-streaming"),
            ({"type": "tool.input.delta", "call_id": "c1", "delta": '{"command": "git st'}, "input-streaming"),
            ({"type": "tool.input.available", "call_id": "c1", "tool": "Bash", "input": {}}, "input-available"),
            ({"type": "approval.requested", "call_id": "c1", "approval_id": "a1"}, "approval-requested"),
            ({"type": "approval.responded", "approval_id": "a1", "approved": True}, "approval-responded"),
            ({"type": "tool.output.partial", "call_id": "c1", "output": "half"}, "output-available"),
            ({"type": "tool.output.available", "call_id": "c1", "output": {"ok": True}}, "output-available"),
            ({"type": "tool.input.available", "call_id": "c2", "tool": "Read", "input": {}}, None),
            ({"type": "tool.output.error", "call_id": "c2", "error": {"message": "it broke"}}, None),
            ({"type": "tool.input.available", "call_id": "c3", "tool": "Read", "input": {}}, None),
            ({"type": "tool.output.denied", "call_id": "c3", "reason": "no"}, None),
        ]  # fmt: skip
        for frame, state in steps:
            agent.send(json.dumps(frame))
            if frame["type"] == "tool.input.delta":
                page.wait_for_selector("article .writing >> text=git st")
            if state:
                in_state(page, state)
        in_state(page, "output-error", "c2")
        in_state(page, "output-denied", "c3")
        expect(card(page, "c2")).to_contain_text("it broke")
        expect(page.locator("article")).to_have_count(3)
        expect(page.locator("article[data-moving]")).to_have_count(0)
        assert page.evaluate("window.sameSession")


def test_reading_is_not_disturbed_by_fifty_updates(server: Server, visit: Open, run: str) -> None:
    ask(server, run)
    page = visit(path_of(run))
    armed(page)
    node = card(page).element_handle()
    card(page).locator("summary").first.click()
    page.fill("input[name=reason]", "half a thou")
    page.focus("button[value=approve]")
    page.evaluate(PUSH, 50)
    assert page.evaluate("node => node === document.querySelector('article.card')", node)
    assert page.evaluate("document.activeElement.value") == "approve"
    assert page.input_value("input[name=reason]") == "half a thou"
    assert page.evaluate("document.querySelector('article details').open")


def test_an_older_revision_changes_nothing(server: Server, visit: Open, run: str) -> None:
    ask(server, run)
    page = visit(path_of(run))
    page.evaluate(PUSH, 3)
    rev = card(page).get_attribute("data-rev")
    page.evaluate(PUSH.replace("+ 1", "- 2"), 1)
    assert card(page).get_attribute("data-rev") == rev


def test_a_click_right_after_the_card_came_does_nothing_but_deny_works(server: Server, visit: Open, run: str) -> None:
    page = visit("/approvals/")
    posted = watch_posts(page)
    page.evaluate(STOP_THE_CLOCK)  # on a busy machine even a quick click comes late
    page.evaluate(CLICK_AS_IT_COMES, f"{run}-a")
    ask(server, run, call_id=f"{run}-a")
    until(lambda: page.evaluate("window.clicked"))
    assert not posted and card(page, f"{run}-a").get_attribute("data-state") == "approval-requested"
    page.evaluate(CLICK_AS_IT_COMES.replace("approve", "deny"), f"{run}-b")
    ask(server, run, call_id=f"{run}-b")
    in_state(page, "output-denied", f"{run}-b")
    assert posted


def test_voting_works_while_the_live_link_is_cut(server: Server, visit: Open, run: str) -> None:
    ask(server, run)
    page = visit(path_of(run))
    armed(page)
    page.evaluate(
        "document.querySelectorAll('[data-socket]').forEach(at => at._htmx.ws.connection.config.reconnect = false)"
    )
    page.evaluate("document.querySelectorAll('[data-socket]').forEach(at => at._htmx.ws.connection.socket.close())")
    page.wait_for_selector("body[data-live=down]")
    expect(page.locator(".bar-lost")).to_be_visible()
    card(page).locator("button[value=approve]").click()
    in_state(page, "approval-responded")


def test_the_buttons_can_be_reached_whatever_the_length(server: Server, visit: Open, run: str) -> None:
    ask(server, run, path="a.py", text="x = 1\n" * 3_400)
    page = visit(path_of(run), viewport={"width": 360, "height": 640})
    box = card(page).locator("button[value=approve]").bounding_box()
    page.evaluate("document.querySelector('article.card').scrollIntoView({block: 'start'})")
    box = card(page).locator("button[value=approve]").bounding_box()
    assert box and box["y"] + box["height"] <= 640 - 56


def test_the_count_is_in_the_title_of_every_page(server: Server, visit: Open, run: str) -> None:
    page = visit("/policy/")
    page.evaluate("window.sameSession = true")
    decision = ask(server, run)
    assert decision["approval"]["id"] in waiting(server)
    until(lambda: page.title().startswith(f"({len(waiting(server))}) "))
    until(lambda: page.locator("[data-waiting-count]").inner_text().endswith(str(len(waiting(server)))))
    assert page.evaluate("window.sameSession")


def test_a_page_reconnects_by_itself_after_a_restart(server: Server, visit: Open, run: str) -> None:
    tell(server, run, {"type": "tool.input.available", "call_id": "c1", "tool": "Read", "input": {}})
    page = visit(path_of(run))
    server.kill()
    page.wait_for_selector("body[data-live=down]")
    lost_bar = page.locator(".bar-lost")
    expect(lost_bar).to_contain_text("may be out of date")
    expect(lost_bar).not_to_contain_text("work")  # no button does while the server is down
    server.start()
    page.wait_for_selector("body[data-live=up]")
    tell(server, run, {"type": "tool.input.available", "call_id": "c2", "tool": "Read", "input": {}})
    page.wait_for_selector("article[data-call-id=c2]")


def test_signing_out_elsewhere_closes_the_page(server: Server, visit: Open, browser: Any) -> None:
    context = patient(browser.new_context())
    page = context.new_page()
    page.goto(f"{server.base}/login/?next=/runs/")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", server.password)
    page.locator("main button").click()
    page.wait_for_selector("body[data-live=up]")
    other = context.new_page()
    other.goto(server.base + "/runs/")
    other.locator("button[aria-label='Sign out']").click()
    page.wait_for_url(lambda url: "/login/" in url)
    context.close()


def test_new_cards_are_held_back_while_a_person_reads(server: Server, visit: Open, run: str) -> None:
    ask(server, run, call_id=f"{run}-1")
    page = visit("/approvals/")
    page.locator(f"article[data-call-id='{run}-1'] input[name=reason]").fill("thinking")
    ask(server, run, call_id=f"{run}-2")
    page.wait_for_selector("button[data-held]")
    assert card(page, f"{run}-2").count() == 0
    page.click("button[data-held]")
    page.wait_for_selector(f"article[data-call-id='{run}-2']")
    expect(page.locator(f"article[data-call-id='{run}-1'] input[name=reason]")).to_have_value("thinking")


def test_keys_move_deny_and_approve(server: Server, visit: Open, run: str) -> None:
    ask(server, run, call_id="k1")
    ask(server, run, call_id="k2")
    page = visit(path_of(run))
    armed(page, "k2")
    page.keyboard.press("j")
    page.wait_for_function("document.activeElement.dataset.callId === 'k1'")
    page.keyboard.press("d")
    page.keyboard.type("a no")  # letters in a field are letters
    page.keyboard.press("Control+Enter")
    in_state(page, "output-denied", "k1")
    expect(card(page, "k1")).to_contain_text("a no")
    page.wait_for_function("document.activeElement.dataset.callId === 'k2'")
    armed(page, "k2")
    page.keyboard.press("a")
    in_state(page, "approval-responded", "k2")


def test_a_page_holds_eighty_calls_however_many_come(server: Server, visit: Open, run: str) -> None:
    frames = [
        {"type": "tool.input.available", "call_id": f"m{n:03}", "tool": "Read", "input": {"n": n}} for n in range(230)
    ]
    tell(server, run, *frames[:70])
    page = visit(path_of(run))
    tell(server, run, *frames[70:])
    page.wait_for_selector("article[data-call-id=m229]", state="attached")
    expect(page.locator("article")).to_have_count(80)
    expect(page.locator("article").last).to_have_attribute("data-call-id", "m229")
    gap = page.locator(".left-out a")  # the reader is at the top, where nothing leaves
    expect(gap).to_have_text("150 calls not shown here")
    assert "?source=automation&before=" in gap.get_attribute("href")


def test_reading_works_without_scripts(server: Server, visit: Open, run: str) -> None:
    ask(server, run)
    page = visit(path_of(run), live=False, java_script_enabled=False)
    assert "Needs approval" in card(page).inner_text() and "a.py" in card(page).inner_text()
    card(page).locator("input[name=reason]").fill("not now")
    with page.expect_navigation():
        card(page).locator("button[value=deny]").click()
    page.goto(server.base + path_of(run))
    assert card(page).get_attribute("data-state") == "output-denied" and "not now" in card(page).inner_text()


@pytest.mark.parametrize("most", [4, pytest.param(99, marks=pytest.mark.sweep)], ids=["a few", "all"])
def test_pages_pass_the_accessibility_check(server: Server, visit: Open, run: str, most: int) -> None:
    ask(server, run)
    tell(
        server, run,
        {"type": "tool.input.available", "call_id": "c2", "tool": "Read", "input": {"path": "x"}},
        {"type": "tool.output.error", "call_id": "c2", "error": {"message": "it broke", "code": "oops"}},
        {"type": "tool.input.available", "call_id": "c3", "tool": "Read", "input": {"path": "x"}},
        {"type": "tool.output.denied", "call_id": "c3", "reason": "no"},
        {"type": "tool.input.started", "call_id": "c4", "tool": "Read"},
        {"type": "from-the-future"}, skip_count=1,
    )  # fmt: skip
    many = [f"f{number}" for number in range(9)]  # enough to be folded
    tell(server, run, *[{"type": "tool.input.available", "call_id": one, "tool": "Read", "input": {}} for one in many])
    tell(server, run, *[{"type": "tool.output.available", "call_id": one, "output": 1} for one in many])
    risky = {"run": run, "call_id": "risky", "tool": "delete_file", "args": {"path": "../a"}}
    assert server.request("POST", "/api/v1/calls/decide", risky)[1]["decision"] == "ask"
    page = visit(path_of(run), reduced_motion="reduce")  # no colours on their way
    page.wait_for_selector(".folded")
    at = card(page).locator(".permalink").get_attribute("href")
    paths = [
        path_of(run), f"{path_of(run)}?tab=timeline", f"{path_of(run)}?tab=steps", "/", "/runs/",
        "/calls/?q=" + quote(run), "/calls/tools/", "/calls/agents/",
        at, f"{at}rule/", "/approvals/", "/approvals/history/", "/policy/",
        "/policy/rules/new/", "/policy/versions/", "/sources/", "/sources/unknown-frames/",
        "/help/", "/help/policy/", "/settings/audit/",
        "/settings/notify/", "/settings/killswitch/", "/settings/breakglass/", "/settings/people/",
        "/settings/people/1/", "/settings/password/",
    ]  # fmt: skip
    violations = {}
    for path in paths[:most]:
        page.goto(server.base + path)
        page.wait_for_selector("body[data-live=up]")
        violations[path] = find_violations(page)
    assert not any(violations.values()), violations


@pytest.mark.parametrize("page", ["/runs/", "/calls/", "run"])
def test_names_of_any_length_fit_a_phone(server: Server, visit: Open, run: str, page: str) -> None:
    started = {"type": "run.started", "agent": "agent-" + "n" * 150, "title": "t" * 150}
    fields = {"type": "tool.input.available", "call_id": "c1", "tool": "t" * 150, "input": {"path": "p" * 900}}
    failed = {"type": "tool.output.error", "call_id": "c1", "error": {"message": "e" * 900}}
    tell(server, run, started, fields, failed)
    phone_page = visit(path_of(run) if page == "run" else page, viewport={"width": 390, "height": 800})
    assert phone_page.evaluate("document.documentElement.scrollWidth") <= 390
