"""Long runs: folded where all went well, bounded in what a page holds, and caught up with after being hidden."""

from __future__ import annotations

from typing import Any

from tests.support.browser_pages import (
    GO_ON,
    NEEDS_BROWSER,
    STOP_THE_CLOCK,
    Open,
    card,
    in_state,
    path_of,
    tell,
    waiting,
)
from tests.support.server import Server, until

pytestmark = NEEDS_BROWSER
THOUSAND = 1_000


def done(call_id: str, tool: str = "Read") -> list[dict[str, Any]]:
    return [
        {"type": "tool.input.available", "call_id": call_id, "tool": tool, "input": {"path": call_id}},
        {"type": "tool.output.available", "call_id": call_id, "output": "fine"},
    ]


def failed(call_id: str) -> list[dict[str, Any]]:
    return [done(call_id)[0], {"type": "tool.output.error", "call_id": call_id, "error": {"message": "it broke"}}]


def shown(page: Any) -> list[str]:
    """The calls whose cards are to be seen, in order."""
    all_cards = "[...document.querySelectorAll('article.card')]"
    result: list[str] = page.evaluate(f"{all_cards}.filter(c => !c.closest('li[hidden]')).map(c => c.dataset.callId)")
    return result


# ---------------------------------------------------------------- folding


def test_neighbours_that_went_well_fold_and_failures_stand_out(server: Server, visit: Open, run: str) -> None:
    frames = [frame for n in range(6) for frame in done(f"a{n}", "Read" if n % 3 else "Grep")]
    frames += failed("bad") + [frame for n in range(3) for frame in done(f"b{n}")]  # three are too few to fold
    frames += failed("bad2") + [frame for n in range(3) for frame in done(f"z{n}")]
    tell(server, run, *frames)
    page = visit(path_of(run))
    head = page.locator(".folded button")
    assert head.count() == 1 and head.get_attribute("aria-expanded") == "false"
    assert "6 calls" in head.inner_text() and "4 Read, 2 Grep" in head.inner_text()
    assert shown(page) == ["bad", "b0", "b1", "b2", "bad2", "z0", "z1", "z2"]
    page.focus(".folded button")
    page.keyboard.press("Enter")
    assert len(shown(page)) == 14 and head.get_attribute("aria-expanded") == "true"
    head.click()
    assert len(shown(page)) == 8


def test_keys_pass_over_what_is_folded(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(9) for frame in done(f"k{n}")])
    page = visit(path_of(run))
    assert shown(page) == ["k6", "k7", "k8"]
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.dataset.callId") == "k6"


def test_what_has_just_ended_stays_open_and_what_is_on_screen_does_not_fold(
    server: Server, visit: Open, run: str
) -> None:
    tell(server, run, *[done(f"n{n}")[0] for n in range(60)])
    page = visit(path_of(run))
    page.evaluate(STOP_THE_CLOCK)
    tell(server, run, *[done(f"n{n}")[1] for n in range(60)])
    in_state(page, "output-available", "n59")
    assert card(page, "n0").is_visible() and page.locator(".folded").count() == 0
    page.evaluate(GO_ON)
    page.wait_for_selector(".folded button", state="attached")  # off screen, once it cannot be read any more
    assert card(page, "n0").is_visible() and shown(page)[-3:] == ["n57", "n58", "n59"]


def test_a_short_page_is_not_folded(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(7) for frame in done(f"s{n}")])
    page = visit(path_of(run))
    assert len(shown(page)) == 7


def test_without_scripts_nothing_is_folded(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(12) for frame in done(f"p{n}")])
    page = visit(path_of(run), live=False, java_script_enabled=False)
    assert page.locator("article:visible").count() == 12


# ---------------------------------------------------------------- ten thousand calls


def test_a_run_of_ten_thousand_calls_is_a_page_like_any_other(server: Server, visit: Open, run: str) -> None:
    for start in range(0, 10 * THOUSAND, THOUSAND):
        tell(server, run, *[frame for n in range(start, start + THOUSAND) for frame in done(f"t{n:05}")])
    page = visit(path_of(run))
    cards = page.locator("article.card")
    assert cards.count() == 200 and cards.last.get_attribute("data-call-id") == "t09999"
    assert page.evaluate("document.querySelectorAll('*').length") < 12_000

    tell(server, run, *[done(f"u{n}")[0] for n in range(30)])  # more calls arrive, and the page does not grow
    page.wait_for_selector("article[data-call-id=u29]")
    until(lambda: cards.count() == 200)

    with page.expect_navigation():
        page.locator("#older").click()
    page.wait_for_selector("body[data-live=up]")
    assert cards.count() == 200 and cards.first.get_attribute("data-call-id") < "t09831"
    page.goto(f"{server.base}{path_of(run)}?tab=timeline")
    page.wait_for_selector("body[data-live=up]")
    assert page.locator(".timeline svg a").count() <= 400 and page.locator("[data-minimap] a").count() == 240
    page.focus("[data-minimap]")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(lambda url: "around=" in url)
    assert page.locator(".timeline svg a").count() <= 400
    page.goto(f"{server.base}{path_of(run)}?tab=steps")
    assert page.locator(".phases tbody tr").count() <= 1_000


# ---------------------------------------------------------------- hidden tabs


def test_a_tab_that_was_hidden_and_stopped_catches_up_when_it_is_shown(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[done(f"h{n:03}")[0] for n in range(150)])
    page = visit(path_of(run))
    cdp = page.context.new_cdp_session(page)
    cdp.send("Page.setWebLifecycleState", {"state": "frozen"})  # what a browser does with a tab in the background
    for _ in range(5):  # more than is kept for one reader
        tell(server, run, *[frame for n in range(150) for frame in done(f"h{n:03}")])
    tell(server, run, *[done(f"i{n:03}")[0] for n in range(450)])
    tell(server, run, *failed("last"))
    cdp.send("Page.setWebLifecycleState", {"state": "active"})
    page.wait_for_selector("article[data-call-id=last][data-state=output-error]")
    until(lambda: page.locator("article.card").count() == 200)
    open_ones = page.locator("article[data-call-id^=h][data-state=input-available]")
    assert open_ones.count() == 0
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
