"""Long runs: folded where all went well, bounded in what a page holds, and caught up with after being hidden."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browser_pages import (
    CARD_STAYS_OPEN,
    GO_ON,
    NEEDS_BROWSER,
    STOP_THE_CLOCK,
    Open,
    ask,
    card,
    expect,
    in_state,
    path_of,
    skip,
    tell,
    waiting,
)
from tests.support.server import Server, until

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]
THOUSAND = 1_000
MOST_NODES, COUNT_NODES = 1_500, "document.querySelectorAll('*').length"


def build_done_call(call_id: str, tool: str = "Read") -> list[dict[str, Any]]:
    return [
        {"type": "tool.input.available", "call_id": call_id, "tool": tool, "input": {"path": call_id}},
        {"type": "tool.output.available", "call_id": call_id, "output": "fine"},
    ]


def failed(call_id: str) -> list[dict[str, Any]]:
    return [
        build_done_call(call_id)[0],
        {"type": "tool.output.error", "call_id": call_id, "error": {"message": "it broke"}},
    ]


def wait_for_cards(page: Any, *call_ids: str) -> None:
    """Wait until the cards of exactly these calls are to be seen, in this order."""
    unfolded = "[...document.querySelectorAll('article.card')].filter(card => !card.closest('li[hidden]'))"
    until(lambda: page.evaluate(f"{unfolded}.map(card => card.dataset.callId)") == list(call_ids))


# ---------------------------------------------------------------- folding


def test_neighbours_that_went_well_fold_and_failures_stand_out(server: Server, visit: Open, run: str) -> None:
    frames = [frame for n in range(6) for frame in build_done_call(f"a{n}", "Read" if n % 3 else "Grep")]
    frames += failed("bad") + [
        frame for n in range(3) for frame in build_done_call(f"b{n}")
    ]  # three are too few to fold
    frames += failed("bad2") + [frame for n in range(3) for frame in build_done_call(f"z{n}")]
    tell(server, run, *frames)
    page = visit(path_of(run))
    head = page.locator(".folded button")
    expect(head).to_have_count(1)
    expect(head).to_have_attribute("aria-expanded", "false")
    expect(head).to_contain_text("6 calls")
    expect(head).to_contain_text("4 Read, 2 Grep")
    unfolded = ["bad", "b0", "b1", "b2", "bad2", "z0", "z1", "z2"]
    wait_for_cards(page, *unfolded)
    page.focus(".folded button")
    page.keyboard.press("Enter")
    wait_for_cards(page, *[f"a{n}" for n in range(6)], *unfolded)
    expect(head).to_have_attribute("aria-expanded", "true")
    head.click()
    wait_for_cards(page, *unfolded)


def test_keys_pass_over_what_is_folded(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(9) for frame in build_done_call(f"k{n}")])
    page = visit(path_of(run))
    wait_for_cards(page, "k6", "k7", "k8")
    page.keyboard.press("j")
    page.wait_for_function("document.activeElement.dataset.callId === 'k6'")


def test_what_has_just_ended_stays_open_and_what_is_on_screen_does_not_fold(
    server: Server, visit: Open, run: str
) -> None:
    tell(server, run, *[build_done_call(f"n{n}")[0] for n in range(60)])
    page = visit(path_of(run))
    page.evaluate(STOP_THE_CLOCK)
    tell(server, run, *[build_done_call(f"n{n}")[1] for n in range(60)])
    in_state(page, "output-available", "n59")
    assert card(page, "n0").is_visible() and page.locator(".folded").count() == 0
    page.evaluate(GO_ON)
    skip(page, CARD_STAYS_OPEN)
    page.wait_for_selector(".folded button", state="attached")  # off screen, once it cannot be read any more
    expect(card(page, "n0")).to_be_visible()
    for call_id in ("n57", "n58", "n59"):
        expect(card(page, call_id).locator("xpath=ancestor::li[@hidden]")).to_have_count(0)


def test_a_short_page_is_not_folded(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(7) for frame in build_done_call(f"s{n}")])
    page = visit(path_of(run))
    wait_for_cards(page, *[f"s{n}" for n in range(7)])


def test_without_scripts_nothing_is_folded(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(12) for frame in build_done_call(f"p{n}")])
    page = visit(path_of(run), live=False, java_script_enabled=False)
    expect(page.locator("article:visible")).to_have_count(12)


# ---------------------------------------------------------------- lines


def test_older_calls_are_lines_that_open_and_stay_open(server: Server, visit: Open, run: str) -> None:
    frames = [frame for n in range(30) for frame in (failed(f"l{n:02}") if n % 2 else build_done_call(f"l{n:02}"))]
    tell(server, run, *frames)
    page = visit(path_of(run))
    lines = page.locator("article[data-line]")
    expect(lines).to_have_count(22)
    expect(card(page, "l01")).to_contain_text("it broke")
    card(page, "l01").locator("a").click()
    page.wait_for_selector("article[data-call-id=l01]:not([data-line]) .error")
    page.wait_for_function("document.activeElement.dataset.callId === 'l01'")
    expect(lines).to_have_count(21)
    tell(server, run, *[frame for n in range(4) for frame in failed(f"m{n}")])  # others come; it stays open
    card(page, "m3").wait_for(state="attached")
    expect(lines).to_have_count(25)
    for call_id in ("l01", "m3"):
        expect(page.locator(f"article[data-call-id={call_id}][data-line]")).to_have_count(0)


def test_a_card_that_became_a_line_is_the_line_that_the_server_draws(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *build_done_call("l00"), *failed("l01"), *failed("l02"))
    page = visit(path_of(run))
    page.wait_for_function("document.querySelectorAll('article').length === 3")
    tell(server, run, *[frame for n in range(30) for frame in failed(f"m{n:02}")])
    page.wait_for_selector("article[data-call-id=m29]", state="attached")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")  # off screen, cards may shrink
    for call_id in ("l00", "l01", "l02"):
        page.wait_for_selector(f"article[data-call-id={call_id}][data-line]", state="attached")
    outline = """article => [article.querySelector('b').parentElement.innerHTML,
      ...[...article.attributes].filter(one => one.name !== 'class').map(one => `${one.name}=${one.value}`).sort()]"""
    outlines = {call_id: card(page, call_id).evaluate(outline) for call_id in ("l00", "l01", "l02")}
    page.reload()
    assert outlines == {call_id: card(page, call_id).evaluate(outline) for call_id in outlines}


def test_a_line_that_changes_shows_its_card_and_a_waiting_one_can_be_answered(
    server: Server, visit: Open, run: str
) -> None:
    tell(server, run, build_done_call("slow")[0], *[frame for n in range(20) for frame in build_done_call(f"q{n}")])
    page = visit(path_of(run))
    expect(page.locator("article[data-call-id=slow][data-line]")).to_contain_text("No result")
    tell(server, run, {"type": "tool.output.error", "call_id": "slow", "error": {"message": "it broke late"}})
    in_state(page, "output-error", "slow")
    page.wait_for_selector("article[data-call-id=slow] >> text=it broke late")
    ask(server, run, call_id="w")
    tell(server, run, *[frame for n in range(20) for frame in build_done_call(f"r{n}")])
    page.wait_for_selector("article[data-call-id=r19]", state="attached")
    expect(card(page, "w").locator("button[value=deny]")).to_be_visible()
    page.reload()
    expect(card(page, "w").locator("button[value=deny]")).to_be_visible()


def test_an_address_that_names_a_call_finds_it_on_any_page(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(300) for frame in build_done_call(f"a{n:03}")])
    page = visit(path_of(run))
    name = card(page, "a299").get_attribute("id").rsplit("-", 1)[0]
    for ordinal, call_id in ((290, "a289"), (20, "a019")):
        page = visit(f"{path_of(run)}#{name}-{ordinal}")
        page.wait_for_selector(f"article[data-call-id={call_id}]:focus:not([data-line])")
    page = visit(f"{path_of(run)}#{name}-999999")  # no such call
    expect(page.locator("article")).to_have_count(80)


def test_what_is_folded_is_found_by_the_search_of_the_browser(server: Server, visit: Open, run: str) -> None:
    tell(
        server,
        run,
        *build_done_call("needle", "Needlework"),
        *[frame for n in range(20) for frame in build_done_call(f"s{n}")],
    )
    page = visit(path_of(run))
    expect(card(page, "needle")).to_be_hidden()
    match_event = "new Event('beforematch', {bubbles: true})"
    page.evaluate(f"document.querySelector('li[hidden=until-found]').dispatchEvent({match_event})")
    card(page, "needle").wait_for(state="visible")


# ---------------------------------------------------------------- ten thousand calls


def test_a_run_of_ten_thousand_calls_is_a_page_like_any_other(server: Server, visit: Open, run: str) -> None:
    for start in range(0, 10 * THOUSAND, THOUSAND):
        tell(server, run, *[frame for n in range(start, start + THOUSAND) for frame in build_done_call(f"t{n:05}")])
    page = visit(path_of(run))
    cards = page.locator("article.card")
    expect(cards).to_have_count(80)
    expect(cards.last).to_have_attribute("data-call-id", "t09999")
    assert page.evaluate(COUNT_NODES) <= MOST_NODES

    for start in range(0, 90, 30):  # more calls arrive, and the page does not grow
        tell(server, run, *[frame for n in range(start, start + 30) for frame in build_done_call(f"u{n}")])
    page.wait_for_selector("article[data-call-id=u89]", state="attached")
    until(lambda: cards.count() == 80 and page.evaluate(COUNT_NODES) <= MOST_NODES)

    with page.expect_navigation():
        page.locator("#older").click()
    page.wait_for_selector("body[data-live=up]")
    expect(cards).to_have_count(80)
    assert cards.last.get_attribute("data-call-id").startswith(("t", "u0", "u9"))
    assert page.evaluate(COUNT_NODES) <= MOST_NODES
    page.goto(f"{server.base}{path_of(run)}?tab=timeline")
    page.wait_for_selector("body[data-live=up]")
    expect(page.locator("[data-minimap] a")).to_have_count(40)
    assert page.locator(".timeline svg a").count() <= 400
    assert page.evaluate(COUNT_NODES) <= MOST_NODES
    page.focus("[data-minimap]")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(lambda url: "around=" in url)
    expect(page.locator("[data-minimap] a")).to_have_count(40)
    assert page.locator(".timeline svg a").count() <= 400
    page.goto(f"{server.base}{path_of(run)}?tab=steps")
    assert page.locator(".phases tbody tr").count() == 80 and page.evaluate(COUNT_NODES) <= MOST_NODES


# ---------------------------------------------------------------- hidden tabs


def test_a_tab_that_was_hidden_and_stopped_catches_up_when_it_is_shown(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[build_done_call(f"h{n:03}")[0] for n in range(150)])
    page = visit(path_of(run))
    cdp = page.context.new_cdp_session(page)
    cdp.send("Page.setWebLifecycleState", {"state": "frozen"})  # what a browser does with a tab in the background
    for _ in range(5):  # more than is kept for one reader
        tell(server, run, *[frame for n in range(150) for frame in build_done_call(f"h{n:03}")])
    tell(server, run, *[build_done_call(f"i{n:03}")[0] for n in range(450)])
    tell(server, run, *failed("last"))
    cdp.send("Page.setWebLifecycleState", {"state": "active"})
    page.wait_for_selector("article[data-call-id=last][data-state=output-error]")
    expect(page.locator("article.card")).to_have_count(80)
    expect(page.locator("article[data-call-id^=h][data-state=input-available]")).to_have_count(0)
    page.wait_for_selector("body[data-live=up]")


def test_a_hidden_tab_still_counts_what_waits(server: Server, visit: Open, run: str) -> None:
    page = visit("/policy/")
    page.evaluate(
        """() => {
          Object.defineProperty(document, 'hidden', {value: true, configurable: true});
          Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true});
          document.dispatchEvent(new Event('visibilitychange'));
        }"""
    )
    body = {"run": run, "call_id": "w1", "tool": "Edit", "args": {"path": "a.py"}}
    status, decision, _ = server.request("POST", "/api/v1/calls/decide", body)
    assert status == 200 and decision["approval"]["id"] in waiting(server)
    until(lambda: page.title().startswith(f"({len(waiting(server))}) "))
