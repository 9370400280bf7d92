"""Nothing moves under a reader: what comes, changes and goes while a page is open shifts no other part of it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.browser_pages import (
    LINE_STAYS,
    NEEDS_BROWSER,
    SUM_SHIFTS,
    WATCH_SHIFTS,
    Open,
    ask,
    build_done_call,
    card,
    expect,
    let_pass,
    path_of,
    skip,
    tell,
    waiting,
    withdraw_all,
)
from tests.support.server import Server, until

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]

HIDE_PAGE = """
Object.defineProperty(document, 'hidden', {value: true, configurable: true});
document.dispatchEvent(new Event('visibilitychange'));
"""
WAIT_UNTIL_QUIET = """() => new Promise(resolve => {
  const end = () => requestAnimationFrame(() => setTimeout(resolve));
  let timer = setTimeout(end, 400);
  new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(end, 400); })
    .observe(document.getElementById('board'), {childList: true, subtree: true, attributes: true});
})"""


def count_layouts(page: Any) -> float:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return float(metrics["LayoutCount"])


def test_new_calls_on_the_page_of_all_calls_wait_behind_a_button(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(12) for frame in build_done_call(f"{run}-a{n}")])
    page = visit("/calls/")
    page.evaluate(WATCH_SHIFTS)
    tell(server, run, *[frame for n in range(12) for frame in build_done_call(f"{run}-b{n}")])
    page.wait_for_selector("button[data-held='12']")
    assert card(page, f"{run}-b0").count() == 0
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    page.check("[data-follow]")
    page.wait_for_selector(f"article[data-call-id='{run}-b11']")
    tell(server, run, *build_done_call(f"{run}-c"))
    page.wait_for_selector(f"article[data-call-id='{run}-c']")  # following, it comes at once
    page.uncheck("[data-follow]")


def test_a_short_list_on_a_phone_moves_nothing_as_its_runs_continue(server: Server, visit: Open, run: str) -> None:
    def send(number: int, *frames: dict[str, Any]) -> None:
        where = f"/api/v1/ingest?protocol=native&run={quote(f'{run}-{number}', safe='')}&agent={quote(run, safe='')}"
        body = "".join(json.dumps(frame) + "\n" for frame in frames)
        assert server.request("POST", where, body, Content_Type="application/x-ndjson")[0] == 200

    send(0, *build_done_call("c"))
    page = visit(f"/runs/?agent={quote(run, safe='')}", viewport={"width": 390, "height": 844})
    page.evaluate(WATCH_SHIFTS)
    send(0, *[frame for number in range(12) for frame in build_done_call(f"d{number}")])
    page.locator(".run-row", has_text="13").wait_for()
    for number in range(1, 4):
        send(number, *build_done_call("c"))
    page.wait_for_selector("button[data-held='3']")
    page.locator("button[data-held]").click()  # rows go down on the reader's own press only
    page.wait_for_function("() => document.querySelectorAll('.run-row').length === 4")
    let_pass(page, 500)
    assert page.evaluate(SUM_SHIFTS) <= 0.02


def test_calls_that_come_and_go_do_not_change_the_height_of_a_runs_header(
    server: Server, visit: Open, run: str
) -> None:
    failed = (
        build_done_call("bad")[0],
        {"type": "tool.output.error", "call_id": "bad", "error": {"message": "it broke"}},
    )
    tell(server, run, *failed, *[frame for n in range(12) for frame in build_done_call(f"a{n}")])
    page = visit(path_of(run), viewport={"width": 390, "height": 844})
    legend = page.locator("#run-head .legend")
    with server.socket(protocol="native", run=run, mode="observe") as socket:
        for frame in build_done_call("b"):  # the run continues: the reason of its end goes
            socket.send(json.dumps(frame))
        legend.filter(has_text="Done 13").wait_for()
        page.evaluate(WATCH_SHIFTS)
        for n in range(4):
            for frame, is_running in zip(build_done_call(f"b{n}"), (True, False), strict=True):
                socket.send(json.dumps(frame))
                legend.filter(has_text="Running" if is_running else f"Done {n + 14}").wait_for()
    assert page.evaluate(SUM_SHIFTS) <= 0.02


def test_an_active_run_moves_nothing_on_the_page(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(12) for frame in build_done_call(f"a{n}")])
    page = visit(path_of(run))
    page.evaluate(WATCH_SHIFTS)
    for n in range(20):
        tell(server, run, *build_done_call(f"b{n}"))
    page.wait_for_selector("article[data-call-id=b19][data-state=output-available]", state="attached")
    let_pass(page, 1500)
    assert page.evaluate(SUM_SHIFTS) <= 0.1


@pytest.mark.parametrize("fails", [0, pytest.param(3, marks=pytest.mark.sweep)], ids=["folded", "not folded"])
def test_a_full_page_of_a_run_keeps_what_its_reader_sees_and_still_gets_the_newest_call(
    server: Server, visit: Open, run: str, fails: int
) -> None:
    def call(n: int) -> list[dict[str, Any]]:
        if not fails or n % fails:
            return build_done_call(f"a{n:03}")
        return [
            build_done_call(f"a{n:03}")[0],
            {"type": "tool.output.error", "call_id": f"a{n:03}", "error": {"message": "bad"}},
        ]

    tell(server, run, *[frame for n in range(120) for frame in call(n)])
    page = visit(path_of(run), viewport={"width": 1280, "height": 800})
    let_pass(page, 500)
    page.evaluate(WATCH_SHIFTS)
    first_item = page.locator("#board > li:visible").first
    place = first_item.bounding_box()
    for n in range(120, 220):
        tell(server, run, *call(n))
    page.wait_for_selector("article[data-call-id=a219]", state="attached")
    let_pass(page, 1500)
    assert page.evaluate(SUM_SHIFTS) <= 0.02 and first_item.bounding_box() == place
    assert page.locator("article.card").count() <= 80
    assert 95 <= int(page.locator("button.new-calls").inner_text().split()[0]) <= 100  # a few may have come on screen
    gap_link = page.locator("#board > .left-out a")
    ordinals = page.locator("article.card").evaluate_all("cards => cards.map(card => Number(card.dataset.ordinal))")
    assert sum(b - a - 1 for a, b in pairwise(ordinals)) == sum(
        int(text.split()[0]) for text in gap_link.all_inner_texts()
    )
    expect(gap_link).to_have_count(1)
    page.locator("button.new-calls").click()
    page.wait_for_selector("button.new-calls", state="detached")
    page.wait_for_function("document.activeElement.dataset.callId === 'a219'")
    before = page.evaluate(SUM_SHIFTS)
    for n in range(220, 260):  # the rest of what was there leaves above the screen
        tell(server, run, *call(n))
        let_pass(page, 100)
    page.wait_for_selector("article[data-call-id=a259]", state="attached")
    let_pass(page, 1000)
    assert page.evaluate(SUM_SHIFTS) - before <= 0.1


@pytest.mark.parametrize("burst", [pytest.param(2, marks=pytest.mark.sweep), 5])
def test_who_follows_a_full_run_sees_its_newest_call_and_nothing_jumps(
    server: Server, visit: Open, run: str, burst: int
) -> None:
    tell(server, run, *[frame for n in range(120) for frame in build_done_call(f"a{n:03}")])
    page = visit(path_of(run))
    page.check("[data-follow]")
    page.evaluate(WAIT_UNTIL_QUIET)
    page.evaluate(WATCH_SHIFTS)
    for n in range(120, 160, burst):
        text = {"type": "text.delta", "text": f"Now I read file {n}."}
        tell(server, run, text, *[frame for m in range(n, n + burst) for frame in build_done_call(f"a{m}")])
        page.wait_for_selector(f"article[data-call-id=a{n + burst - 1}][data-state=output-available]")
        page.evaluate(WAIT_UNTIL_QUIET)  # on a busy machine, all would come and go in one frame
    newest = card(page, "a159")
    newest.wait_for()
    let_pass(page, 1000)
    assert newest.bounding_box()["y"] < page.viewport_size["height"]
    assert page.evaluate(SUM_SHIFTS) <= 0.1 and page.locator("article.card").count() <= 80
    assert page.locator(".left-out, button.new-calls").count() == 0
    page.uncheck("[data-follow]")


def test_pushed_changes_force_no_layout_of_their_own(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[{"type": "tool.input.started", "call_id": f"a{n}", "tool": "Read"} for n in range(60)])
    page = visit(path_of(run))
    let_pass(page, 500)
    before = count_layouts(page)
    tell(server, run, *[frame for n in range(60) for frame in build_done_call(f"a{n}")])
    page.wait_for_selector("article[data-call-id=a59][data-state=output-available]", state="attached")
    assert count_layouts(page) - before < 40  # one for each card that changed would be 60 or more


def test_calls_that_were_decided_elsewhere_become_one_line_and_go(server: Server, visit: Open, run: str) -> None:
    for n in range(4):
        ask(server, run, call_id=f"{run}-{n}")
    page = visit("/approvals/")
    page.wait_for_selector(f"article[data-call-id='{run}-3'][data-waiting]")
    page.evaluate(WATCH_SHIFTS)
    withdraw_all(server)
    page.wait_for_selector(f"li.departed > article[data-call-id='{run}-1']", state="attached")
    expect(card(page, f"{run}-1").locator(".card-main")).to_be_hidden()
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    for n in range(4):
        page.wait_for_selector(f"li.departed > article[data-call-id='{run}-{n}']", state="attached")
    skip(page, LINE_STAYS)
    page.wait_for_selector(f"li.settled > article[data-call-id='{run}-3']", state="attached")
    ask(server, run, call_id=f"{run}-new")
    page.wait_for_selector(f"article[data-call-id='{run}-new'][data-waiting]")
    expect(page.locator("article.card").first).to_have_attribute("data-call-id", f"{run}-new")
    withdraw_all(server)


def test_a_call_that_comes_before_expired_lines_have_left_is_on_top_once_they_have(
    server: Server, visit: Open, run: str
) -> None:
    withdraw_all(server)
    for n in range(20):
        ask(server, run, call_id=f"{run}-{n}")
    page = visit("/approvals/", viewport={"width": 1280, "height": 800})
    expect(page.locator("#queue .line")).to_have_count(20)
    withdraw_all(server)
    expect(page.locator("#queue .line.answered")).to_have_count(20)
    ask(server, run, call_id=f"{run}-new", path="the-new-one.py")
    page.wait_for_selector(f"article[data-call-id='{run}-new'][data-waiting]")
    expect(page.locator("#queue .group:has-text('Medium risk') > span")).to_have_text("1")
    page.evaluate(WATCH_SHIFTS)
    skip(page, LINE_STAYS)
    expect(page.locator("#queue .lines .line").first).to_contain_text("the-new-one.py")
    expect(page.locator("#queue .lines.ended .line")).to_have_count(20)
    expect(card(page, f"{run}-new").locator("button[value=deny]")).to_be_in_viewport()
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    withdraw_all(server)


def test_an_inbox_that_is_empty_at_times_moves_no_answered_call(server: Server, visit: Open, run: str) -> None:
    withdraw_all(server)
    ask(server, run, call_id=f"{run}-0")
    page = visit("/approvals/", viewport={"width": 1280, "height": 800})
    end_lines = page.locator("#queue .lines.ended .line")
    for number in range(1, 6):
        withdraw_all(server)
        expect(page.locator("#queue .line:not(.answered)")).to_have_count(0)
        skip(page, LINE_STAYS)
        expect(end_lines).to_have_count(number)
        if number == 1:
            page.evaluate(WATCH_SHIFTS)
        ask(server, run, call_id=f"{run}-{number}")
        expect(page.locator("#queue .line:not(.answered)")).to_have_count(1)
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    withdraw_all(server)


def test_the_first_page_shows_three_that_wait_in_a_line_each_and_the_next_as_they_go(
    server: Server, visit: Open, run: str
) -> None:
    withdraw_all(server)
    for n in range(5):
        ask(server, run, call_id=f"{run}-{n}")
    page = visit("/", viewport={"width": 1280, "height": 800})
    waiting_cards = page.locator("article[data-waiting]")
    until(
        lambda: [one.get_attribute("data-call-id") for one in waiting_cards.all()] == [f"{run}-{n}" for n in (4, 3, 2)]
    )
    assert {round(one.bounding_box()["height"]) for one in waiting_cards.all()} == {44}
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    page.evaluate(WATCH_SHIFTS)
    ask(server, run, call_id=f"{run}-5")
    page.wait_for_selector("#waiting-count[data-waiting-count='6']", state="attached")
    let_pass(page, 1000)
    assert waiting_cards.count() == 3 and card(page, f"{run}-5").count() == 0  # no line is free
    card(page, f"{run}-3").locator("button[value=deny]").click()
    page.wait_for_selector(f"article[data-call-id='{run}-3'][data-state=output-denied]")
    page.mouse.move(5, 5)
    page.wait_for_selector(f"li.departed:nth-child(2) > article[data-call-id='{run}-3']")
    skip(page, LINE_STAYS)
    page.wait_for_selector(f"li:nth-child(2) > article[data-call-id='{run}-5'][data-waiting]")
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    withdraw_all(server)


@pytest.mark.parametrize(("width", "height"), [(1280, 44), (640, 80), (390, 142), (320, 142)])
def test_a_line_names_the_agent_that_asks_and_gets_no_higher(
    server: Server, visit: Open, run: str, width: int, height: int
) -> None:
    withdraw_all(server)
    names = ["claude-code", "a-release-bot-with-" + "a-long-name-" * 8, ""]
    for number, name in enumerate(names):
        path = {"agent_path": [name]} if name else {}
        body = {"run": f"{run}-{number}", "call_id": f"{run}-{number}", "tool": "Edit", "args": {"path": "a" * 200}}
        assert server.request("POST", "/api/v1/calls/decide", body | path)[0] == 200
    page = visit("/", viewport={"width": width, "height": 800})
    for number, name in enumerate(names):
        line = card(page, f"{run}-{number}")
        expect(line.locator(".asker")).to_have_text(name or line.get_attribute("data-source"))
        expect(line.locator(".asker")).to_be_visible()
        assert line.bounding_box()["height"] <= height
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    withdraw_all(server)


@pytest.mark.parametrize("width", [1280, 640, 390])
def test_a_line_has_room_for_sixty_characters_of_its_sentence(
    server: Server, visit: Open, run: str, width: int
) -> None:
    withdraw_all(server)
    command = "git push origin fix/rounding-of-the-coupon-total-at-checkout"
    body = {"run": run, "call_id": run, "tool": "Bash", "args": {"command": command}}
    assert server.request("POST", "/api/v1/calls/decide", body)[0] == 200
    page = visit("/", viewport={"width": width, "height": 400})
    sentence = card(page, run).locator(".card-head .sum")
    expect(sentence).to_have_text("Push fix/rounding-of-the-coupon-total-at-checkout to origin")
    assert sentence.evaluate("box => box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight + 1")
    withdraw_all(server)


def test_a_line_leaves_though_a_finger_touched_it_last(server: Server, visit: Open, run: str) -> None:
    withdraw_all(server)
    for n in range(3):
        ask(server, run, call_id=f"{run}-{n}")
    page = visit("/", viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    ask(server, run, call_id=f"{run}-3")
    page.wait_for_selector("#waiting-count[data-waiting-count='4']", state="attached")
    card(page, f"{run}-1").locator("button[value=deny]").tap()
    page.wait_for_selector(f"li.departed:nth-child(2) > article[data-call-id='{run}-1']")
    skip(page, LINE_STAYS)
    page.wait_for_selector(f"li:nth-child(2) > article[data-call-id='{run}-3'][data-waiting]")
    withdraw_all(server)


PHONES = [(320, 5), (390, 0)]
MORE_PHONES = [(320, 0), (320, 1), (320, 3), (390, 1), (390, 3), (390, 5)]


@pytest.mark.parametrize(
    ("width", "waiting_before"), [*PHONES, *(pytest.param(*each, marks=pytest.mark.sweep) for each in MORE_PHONES)]
)
def test_a_phone_keeps_lines_for_the_calls_that_wait_and_moves_nothing_for_more(
    server: Server, visit: Open, run: str, width: int, waiting_before: int
) -> None:
    withdraw_all(server)
    tell(server, run, *build_done_call("a"))
    for n in range(waiting_before):
        ask(server, run, call_id=f"{run}-{n}")
    page = visit("/", viewport={"width": width, "height": 640})
    lines, waiting_cards = max(1, min(3, waiting_before)), page.locator("article[data-waiting]")
    link, section = page.locator("#all-waiting"), page.locator(".waits")
    expect(waiting_cards).to_have_count(min(3, waiting_before))
    expect(link).to_have_text("2 more waiting" if waiting_before == 5 else "All approvals")
    height = section.bounding_box()["height"]
    assert height < 30 + lines * 144
    page.evaluate(WATCH_SHIFTS)
    for n in range(4):
        ask(server, run, call_id=f"{run}-new{n}")
    page.wait_for_selector(f"#all-waiting:text-is('{waiting_before + 4 - lines} more waiting')")
    let_pass(page, 1000)
    assert waiting_cards.count() == lines and section.bounding_box()["height"] == height
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    withdraw_all(server)
    expect(page.locator("#board > .departed")).to_have_count(lines)
    page.wait_for_selector("#waiting-count[data-waiting-count='0']", state="attached")
    skip(page, LINE_STAYS)
    page.wait_for_selector(".waits .calm:visible")
    expect(link).to_have_text("All approvals")
    assert section.bounding_box()["height"] == height
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    page.evaluate(HIDE_PAGE)  # no one looks: empty lines go
    until(lambda: section.bounding_box()["height"] < 30 + 144)


def test_a_high_risk_opens_before_it_is_approved_from_the_first_page(server: Server, visit: Open, run: str) -> None:
    withdraw_all(server)
    body = {"run": run, "call_id": run, "tool": "delete_file", "args": {"path": "a.txt"}}
    server.request("POST", "/api/v1/calls/decide", body)
    page = visit("/", viewport={"width": 1280, "height": 800})
    approve = card(page, run).locator("button[value=approve]")
    let_pass(page, 500)
    approve.click()
    expect(card(page, run).locator(".asked:visible")).to_contain_text("a.txt")
    assert "Approve delete" not in approve.inner_text()
    let_pass(page, 500)
    # in one step: the question goes back by itself
    assert "Approve delete_file?" in approve.evaluate("button => { button.click(); return button.innerText; }")
    withdraw_all(server)


@pytest.mark.parametrize(("arguments", "hidden"), [
    ({"env": "test", "dry_run": True, "then": "drop everything"}, "drop everything"),
    ({"command": "git push " + "a" * 150 + " hidden"}, "hidden"),
    ({"command": "git push\nhidden"}, "hidden"),
])  # fmt: skip
def test_a_call_opens_before_it_is_approved_if_its_line_leaves_something_out(
    server: Server, visit: Open, run: str, arguments: Any, hidden: str
) -> None:
    withdraw_all(server)
    ask(server, run, run, **arguments)
    page = visit("/", viewport={"width": 1280, "height": 800})
    approve = card(page, run).locator("button[value=approve]")
    let_pass(page, 500)
    approve.click()
    expect(card(page, run).locator(".asked:visible")).to_contain_text(hidden)
    assert card(page, run).get_attribute("data-state") == "approval-requested"
    let_pass(page, 500)
    approve.click()
    page.wait_for_selector(f"article[data-call-id='{run}']:not([data-waiting])")
    withdraw_all(server)


def test_a_call_that_its_line_says_completely_is_approved_in_one_press(server: Server, visit: Open, run: str) -> None:
    withdraw_all(server)
    ask(server, run, run, command="git push origin feature")
    page = visit("/", viewport={"width": 1280, "height": 800})
    let_pass(page, 500)
    card(page, run).locator("button[value=approve]").click()
    page.wait_for_selector(f"article[data-call-id='{run}']:not([data-waiting])")
    withdraw_all(server)


def test_new_runs_wait_behind_a_button_and_known_ones_change_in_place(server: Server, visit: Open, run: str) -> None:
    tell(server, f"{run}-old", *build_done_call("a"))
    page = visit("/runs/")
    page.evaluate(WATCH_SHIFTS)
    row = page.locator(f".run-row:has-text('{run}-old')")
    place = row.bounding_box()
    for n in range(3):
        tell(server, f"{run}-new{n}", *build_done_call("a"))
    page.wait_for_selector("button[data-held='3'] >> text=3 new runs")
    tell(server, f"{run}-old", {"type": "run.finished", "outcome": "success"})
    page.wait_for_selector(f".run-row:has-text('{run}-old') >> text=Finished")
    assert row.bounding_box() == place and page.evaluate(SUM_SHIFTS) <= 0.1
    page.keyboard.press(".")
    page.wait_for_selector(f".run-row:has-text('{run}-new2')")
    names = [f"{run}-new{n}" for n in (2, 1, 0)] + [f"{run}-old"]
    until(lambda: page.locator(".run-row .name a").all_inner_texts()[:4] == names)
    expect(page.locator("button[data-held]")).to_have_count(0)


def test_the_numbers_of_tools_change_in_place_and_new_tools_wait(server: Server, visit: Open, run: str) -> None:
    old, new = f"{run}-old".replace("/", "-"), f"{run}-new".replace("/", "-")
    call = {"type": "tool.input.available", "tool": old, "input": {}}
    for n in range(3):
        tell(
            server, run, call | {"call_id": f"a{n}"}, {"type": "tool.output.available", "call_id": f"a{n}", "output": 1}
        )
    page = visit("/calls/tools/", viewport={"width": 1280, "height": 800})
    page.evaluate(WATCH_SHIFTS)
    row = page.locator(f"tr:has-text('{old}')")
    place, numbers = row.bounding_box(), row.locator("td")
    expect(numbers.first).to_have_text("3")
    tell(server, run, *[call | {"call_id": f"b{n}"} for n in range(9)], call | {"call_id": "c", "tool": new})
    page.wait_for_selector(f"tr:has-text('{old}') td:has-text('12')")
    page.wait_for_selector("button[data-held='1'] >> text=1 new row")
    assert row.bounding_box() == place and page.locator(f"tr:has-text('{new}')").count() == 0
    expect(row.locator("a:text-is('Add rule')")).to_be_visible()
    assert page.evaluate(SUM_SHIFTS) <= 0.1
    page.keyboard.press(".")
    page.wait_for_selector(f"tr:has-text('{new}')")


def test_no_page_moves_while_agents_work(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *build_done_call("first"))
    paths = ["/", "/approvals/", "/runs/", "/calls/", "/sources/", "/policy/", path_of(run)]
    paths += ["/calls/tools/", "/calls/agents/"]
    pages = {path: visit(path, viewport={"width": 1280, "height": 800}) for path in paths}
    for page in pages.values():
        page.evaluate(WATCH_SHIFTS)
    for n in range(12):
        tell(server, run, *build_done_call(f"b{n}"))
        tell(
            server,
            f"{run}-{n}",
            *build_done_call("a"),
            {"type": "run.finished", "outcome": "success" if n % 2 else "error"},
        )
        ask(server, f"{run}-{n % 3}", call_id=f"{run}-{n}", path=f"{n}.py")
        if n % 3 == 2:
            server.request("POST", f"/api/v1/approvals/{waiting(server)[0]}/withdraw", {})
        pages["/"].wait_for_timeout(400)
    for page in pages.values():
        let_pass(page, 2000 // len(pages))
    shifts = {path: round(page.evaluate(SUM_SHIFTS), 3) for path, page in pages.items()}
    assert all(value <= 0.1 for value in shifts.values()), shifts
    withdraw_all(server)


@pytest.mark.parametrize("width", [320, 390])
def test_a_run_fits_on_a_phone_with_its_status_calls_and_duration(
    server: Server, visit: Open, run: str, width: int
) -> None:
    long_run = f"{run}-{'long-name-' * 6}"
    tell(server, long_run, *[frame for n in range(3) for frame in build_done_call(f"a{n}")])
    page = visit("/runs/", viewport={"width": width, "height": 640})
    table = page.locator(".table:has(.run-row)")
    assert table.evaluate("table => table.scrollWidth <= table.clientWidth")
    row = page.locator(f".run-row:has-text('{long_run}')")
    for part in (".name a", ".badge", ".statebar", "td.num"):
        box = row.locator(part).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width and box["height"] > 0, part
    assert row.bounding_box()["height"] <= 112


@pytest.mark.parametrize("width", [860, 1280, 1920])
def test_a_run_is_one_line_on_a_wide_screen_and_its_status_is_not_cut(
    server: Server, visit: Open, run: str, width: int
) -> None:
    ask(server, run)
    page = visit("/runs/", viewport={"width": width, "height": 800})
    row = page.locator(f".run-row:has-text('{run}')")
    expect(row.locator(".badge")).to_have_text("Needs approval")
    assert row.locator("td").first.evaluate("cell => cell.scrollWidth <= cell.clientWidth")
    assert row.bounding_box()["height"] <= (46 if width >= 1100 else 60)
    withdraw_all(server)


@pytest.mark.parametrize("path", ["/", "/approvals/", "/runs/", "/calls/", "/sources/"])
def test_no_page_scrolls_sideways_on_the_smallest_phone_and_every_tab_fits(
    server: Server, visit: Open, run: str, path: str
) -> None:
    failure = {"type": "tool.output.error", "call_id": "failed", "error": {"message": "e" * 900}}
    tell(server, run, {"type": "tool.input.available", "call_id": "failed", "tool": "t" * 140, "input": {}}, failure)
    ask(server, run, call_id=f"{run}-1")
    page = visit(path, viewport={"width": 320, "height": 640})
    page.evaluate("document.querySelectorAll('.failures time').forEach(time => { time.textContent = '59 min ago'; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    last = page.locator(".side .nav:not(.second) a").last.bounding_box()
    assert last["x"] + last["width"] <= 320
    withdraw_all(server)
