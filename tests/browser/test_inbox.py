"""The inbox: a list of lines and one call at a time, answered by keyboard, with a pointer and on a phone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.accessibility import SCHEMES, find_violations
from tests.support.browser_pages import (
    NEEDS_BROWSER,
    STOP_THE_CLOCK,
    Open,
    armed,
    ask,
    card,
    cut_link,
    expect,
    in_state,
    let_pass,
    waiting,
    watch_posts,
)
from tests.support.server import PATIENCE, Server, until

pytestmark = NEEDS_BROWSER

AGENTS, CALLS_PER_AGENT = 6, 10
IN_FOCUS = "document.activeElement.matches('article[data-waiting]') ? document.activeElement.dataset.callId : ''"
# On the clock of the page: a busy machine could take longer for the second press than the question stays.
PRESS_TWICE = """() => new Promise(done => {
  const press = () => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'a', bubbles: true}));
  press();
  setTimeout(() => { press(); done(); }, 450);
})"""
READY = "() => document.activeElement.querySelector('button[value=approve]:not([aria-disabled])')"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a separate server: calls of other tests would appear in the same list."""
    data: Path = tmp_path_factory.mktemp("inbox")
    with Server(data) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_waits(server: Server) -> Iterator[None]:
    """Every test begins with an empty inbox."""
    yield
    for approval in waiting(server):
        server.request("POST", f"/api/v1/approvals/{approval}/withdraw", {})


def ask_to_delete(server: Server, run: str, call_id: str) -> None:
    body = {"run": run, "call_id": call_id, "tool": "delete_file", "args": {"path": f"{call_id}.txt"}}
    assert server.request("POST", "/api/v1/calls/decide", body)[0] == 200


def find_shown_calls(page: Any) -> list[str]:
    """Return the call ids of the cards of which a part can be seen."""
    return list(
        page.evaluate(
            """() => [...document.querySelectorAll('article.card')].filter(card => {
              const {left, right, width} = card.getBoundingClientRect();
              const {left: from, right: to} = document.getElementById('board').getBoundingClientRect();
              return width > 2 && right > from + 1 && left < to - 1;
            }).map(card => card.dataset.callId)"""
        )
    )


def read_decisions(agent: Any) -> dict[str, tuple[str, str]]:
    """Read until each call of the agent is answered; return the answer and its reason by call."""
    answers: dict[str, tuple[str, str]] = {}
    while len(answers) < CALLS_PER_AGENT:
        frame = json.loads(agent.recv(timeout=10 * PATIENCE))
        if frame["type"] == "decision" and frame["decision"] != "ask":
            answers[frame["call_id"]] = (frame["decision"], (frame.get("reason") or {}).get("text", ""))
    return answers


def answer_by_keyboard(page: Any, call_id: str) -> str:
    """Answer the call in focus as its id says; return what was answered."""
    page.wait_for_function(READY)
    if call_id.endswith(("3", "7")):
        page.keyboard.press("d")
        page.keyboard.type(f"not {call_id}")
        page.keyboard.press("Control+Enter")
        return "deny"
    if call_id.endswith("5"):  # of high risk
        page.evaluate(PRESS_TWICE)
    else:
        page.keyboard.press("a")
    return "allow"


@pytest.mark.parametrize("agents", [2, pytest.param(AGENTS, marks=pytest.mark.sweep)])
def test_calls_are_answered_by_keyboard_and_each_agent_gets_its_own_answers(
    server: Server, visit: Open, agents: int
) -> None:
    calls = agents * CALLS_PER_AGENT
    with ExitStack() as stack:
        readers = stack.enter_context(ThreadPoolExecutor(agents))
        decision_readers = []
        for number in range(agents):
            run = f"sixty-{agents}-{number}"
            agent = stack.enter_context(server.socket(protocol="native", run=run, agent=run, mode="gate"))
            for call in range(CALLS_PER_AGENT):
                tool = "delete_file" if call == 5 else "Edit"
                frame = {"type": "tool.input.available", "call_id": f"{run}-{call}", "tool": tool}
                agent.send(json.dumps(frame | {"input": {"path": f"src/{number}/{call}.py"}}))
            decision_readers.append(readers.submit(read_decisions, agent))
        until(lambda: len(waiting(server)) == calls)
        page = visit("/approvals/", viewport={"width": 1280, "height": 800})
        expect(page.locator("#queue .line")).to_have_count(calls)
        page.keyboard.press("n")
        expected_answers = {}
        while len(expected_answers) < calls:
            call_id = until(lambda: (value := page.evaluate(IN_FOCUS)) not in expected_answers and value)
            expected_answers[call_id] = answer_by_keyboard(page, call_id)
        page.wait_for_selector(".queue-empty")
        until(lambda: not waiting(server))
        for call_id, (answer, reason) in [pair for each in decision_readers for pair in each.result().items()]:
            assert answer == expected_answers[call_id]
            assert answer == "allow" or f"not {call_id}" in reason


def test_the_list_has_one_line_for_each_call_and_the_call_stands_next_to_it(
    server: Server, visit: Open, run: str
) -> None:
    for number in range(3):
        ask(server, run, f"{run}-{number}", path=f"{number}.py")
    ask_to_delete(server, run, f"{run}-high")
    page = visit("/approvals/", viewport={"width": 1100, "height": 800})
    lines = page.locator("#queue .line")
    expect(lines).to_have_count(4)
    expect(lines.first.locator("[data-risk=high]")).to_have_count(1)
    assert {round(line.bounding_box()["height"]) for line in lines.all()} == {39}
    assert run in lines.nth(1).inner_text() and "0.py" in lines.nth(1).inner_text()
    until(lambda: find_shown_calls(page) == [f"{run}-high"])
    assert card(page, f"{run}-high").bounding_box()["x"] > lines.first.bounding_box()["x"] + 300
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    until(lambda: find_shown_calls(page) == [f"{run}-1"])
    page.keyboard.press("k")
    until(lambda: find_shown_calls(page) == [f"{run}-0"])
    lines.nth(3).locator(".queued").click()
    until(lambda: find_shown_calls(page) == [f"{run}-2"])
    page.wait_for_function("id => document.activeElement.dataset.callId === id", arg=f"{run}-2")
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")


def test_a_second_press_of_the_key_does_not_answer_the_next_call(server: Server, visit: Open, run: str) -> None:
    for number in range(2):
        ask(server, run, f"{run}-{number}", path=f"{number}.py")
    page = visit("/approvals/")
    armed(page, f"{run}-0")
    card(page, f"{run}-0").focus()
    page.evaluate(STOP_THE_CLOCK)
    page.evaluate("delete performance.now")
    posted = watch_posts(page)
    page.keyboard.press("a")
    page.wait_for_function(f"() => document.activeElement.dataset?.callId === '{run}-1'")
    guarded = page.evaluate(
        """() => { const button = document.activeElement.querySelector('button[value=approve]');
          const isGuarded = button.hasAttribute('aria-disabled'); button.click(); return isGuarded; }"""
    )
    let_pass(page, 300)
    assert not guarded or (len(posted) == 1 and len(waiting(server)) == 1)


def test_new_calls_and_decided_ones_leave_the_call_that_is_read_in_place(server: Server, visit: Open, run: str) -> None:
    items = [ask(server, run, f"{run}-{number}", path=f"{number}.py") for number in range(4)]
    page = visit("/approvals/")
    card(page, f"{run}-2").focus()
    place = card(page, f"{run}-2").bounding_box()
    ask_to_delete(server, run, f"{run}-high")  # sorts before it
    server.request("POST", f"/api/v1/approvals/{items[0]['approval']['id']}/withdraw", {})
    page.wait_for_selector(f"#queue .line:has-text('{run}-high')")
    page.wait_for_selector("#queue .line.answered")
    assert find_shown_calls(page) == [f"{run}-2"] and card(page, f"{run}-2").bounding_box() == place
    assert page.evaluate("document.activeElement.dataset.callId") == f"{run}-2"


def test_selected_calls_are_answered_together_but_no_high_risk_is_approved_so(
    server: Server, visit: Open, run: str
) -> None:
    for number in range(3):
        ask(server, run, f"{run}-{number}", path=f"{number}.py", **{f"field{number}": 1})  # of three shapes
    ask_to_delete(server, run, f"{run}-high")
    page = visit("/approvals/")
    bar = page.locator("#batch-bar")
    page.locator("#queue [data-pick]").first.check()
    expect(bar).to_contain_text("High risk")
    expect(bar.locator("button[value=approve]")).to_be_hidden()
    page.locator("#queue [data-pick]").first.uncheck()
    for number in (0, 2):
        card(page, f"{run}-{number}").focus()
        page.keyboard.press("x")
    expect(bar).to_contain_text("2 selected")
    expect(bar.locator("button[value=approve]")).not_to_contain_text("unseen")
    page.keyboard.press("b")
    page.keyboard.press("a")
    page.wait_for_selector("#results:focus")
    in_state(page, "approval-responded", f"{run}-0")
    in_state(page, "approval-responded", f"{run}-2")
    expect(bar).to_be_hidden()
    assert len(waiting(server)) == 2


def test_selected_calls_stand_below_each_other_and_what_was_not_on_screen_is_counted(
    server: Server, visit: Open, run: str
) -> None:
    for number in range(6):
        ask(server, run, f"{run}-{number}", path=f"{number}.py", text="\n".join("line" for _ in range(30)))
    page = visit("/approvals/", viewport={"width": 1280, "height": 720})
    boxes = page.locator("#queue [data-pick]")
    for number in (1, 3, 5):
        boxes.nth(number).check()
    shown_calls = [f"{run}-{number}" for number in (1, 3, 5)]
    places = page.locator("#board > li:visible > article")
    expect(places).to_have_count(3)
    assert places.evaluate_all("cards => cards.map(card => card.dataset.callId)") == shown_calls
    tops = [place.bounding_box()["y"] for place in places.all()]
    assert tops == sorted(set(tops)) and len({place.bounding_box()["x"] for place in places.all()}) == 1
    approve = page.locator("#batch-bar button[value=approve]")
    expect(approve).to_contain_text("unseen")
    posted = watch_posts(page)
    approve.click()
    assert not posted and len(waiting(server)) == 6
    for place in places.all():
        place.scroll_into_view_if_needed()
    expect(approve).to_contain_text("Approve 3")
    expect(approve).not_to_contain_text("unseen")
    page.locator("#queue .queued").nth(0).click()
    until(lambda: find_shown_calls(page) == [f"{run}-0"])  # another call is read alone
    boxes.nth(0).check()
    boxes.nth(0).uncheck()
    expect(places).to_have_count(3)
    approve.click()
    page.wait_for_selector("#results:focus")
    until(lambda: len(waiting(server)) == 3)


def test_the_list_stands_next_to_the_call_from_768_pixels(server: Server, visit: Open, run: str) -> None:
    for number in range(2):
        ask(server, run, f"{run}-{number}", path=f"{number}.py")
    page = visit("/approvals/", viewport={"width": 768, "height": 1024})
    line = page.locator("#queue .line").first
    expect(line).to_be_visible()
    assert card(page, f"{run}-0").bounding_box()["x"] > line.bounding_box()["x"] + 250
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 767, "height": 1024})
    expect(line).to_be_hidden()


def test_a_phone_shows_one_call_at_a_time_with_its_buttons_in_reach(server: Server, visit: Open, run: str) -> None:
    for number in range(3):
        ask(server, run, f"{run}-{number}", path=f"{number}.py", text="long " * 2000)
    page = visit("/approvals/", viewport={"width": 360, "height": 740}, has_touch=True)
    until(lambda: find_shown_calls(page) == [f"{run}-0"])
    expect(page.locator("#position")).to_contain_text("1 of 3")
    for name in ("approve", "deny"):
        box = card(page, f"{run}-0").locator(f"button[value={name}]").bounding_box()
        assert box["height"] >= 44 and box["y"] > 480 and box["y"] + box["height"] < 684  # above the tabs
    page.get_by_role("button", name="Next call").click()
    until(lambda: find_shown_calls(page) == [f"{run}-1"])
    page.locator("#board").evaluate("list => list.scrollTo({left: 2 * list.clientWidth})")  # a swipe
    expect(page.locator("#position")).to_contain_text("3 of 3")
    page.get_by_role("button", name="All", exact=True).click()
    page.locator("#queue .queued").first.click()
    until(lambda: find_shown_calls(page) == [f"{run}-0"] and not page.locator("#queue").is_visible())
    card(page, f"{run}-0").locator("button[value=deny]").click()
    until(lambda: find_shown_calls(page) == [f"{run}-1"])
    assert page.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize(
    ("width", "height"),
    [(640, 400), *(pytest.param(*size, marks=pytest.mark.sweep) for size in ((683, 384), (844, 390), (320, 256)))],
)
def test_buttons_can_be_reached_in_low_windows(server: Server, visit: Open, run: str, width: int, height: int) -> None:
    for number in range(2):
        ask(server, run, f"{run}-{number}", path=f"{number}.py", text="long\n" * 2000)
    page = visit("/approvals/", viewport={"width": width, "height": height})
    until(lambda: find_shown_calls(page) == [f"{run}-0"])
    for name in ("deny", "approve"):
        button = card(page, f"{run}-0").locator(f"button[value={name}]")
        button.evaluate("button => button.scrollIntoView({block: 'nearest', behavior: 'instant'})")
        box = button.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= height
        middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        assert page.evaluate("([x, y]) => document.elementFromPoint(x, y).closest('button')?.value", middle) == name
    card(page, f"{run}-0").locator("button[value=deny]").click()
    until(lambda: find_shown_calls(page) == [f"{run}-1"])


@pytest.mark.parametrize(
    "disturbance",
    ["list.querySelector('article').dataset.rev = 'changed'", "list.append(document.createElement('li'))"],
    ids=["a card changes", "the list is drawn before the browser tells of the scroll"],
)
def test_a_swipe_is_kept_whatever_happens_before_it_ends(
    server: Server, visit: Open, run: str, disturbance: str
) -> None:
    for number in range(3):
        ask(server, run, f"{run}-{number}", path=f"{number}.py")
    page = visit("/approvals/", viewport={"width": 360, "height": 740}, has_touch=True)
    until(lambda: find_shown_calls(page) == [f"{run}-0"])
    page.locator("#board").evaluate(f"list => {{ list.scrollTo({{left: list.clientWidth}}); {disturbance}; }}")
    expect(page.locator("#position")).to_contain_text("2 of 3")
    until(lambda: find_shown_calls(page) == [f"{run}-1"])


@pytest.mark.parametrize("width", [360, *(pytest.param(width, marks=pytest.mark.sweep) for width in (768, 1280, 1920))])
def test_the_inbox_passes_the_accessibility_check(server: Server, visit: Open, run: str, width: int) -> None:
    for number in range(3):
        ask(server, run, f"{run}-{number}", path=f"{number}.py", text="long " * 2000)
    ask_to_delete(server, run, f"{run}-high")
    page = visit("/approvals/", viewport={"width": width, "height": 800}, reduced_motion="reduce")
    broken = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for step in ("", ".stepper [data-listing]", "#queue [data-pick]:visible >> nth=1", "?"):
            if step == "?":
                page.keyboard.press(step)
            target = page.locator(step) if len(step) > 1 else None
            if target and target.first.is_visible():
                target.first.click()
            broken += [(step, *violation) for violation in find_violations(page, scheme)]
        page.keyboard.press("Escape")
        page.locator("#queue [data-pick]:checked").evaluate_all("boxes => boxes.forEach(box => box.click())")
        page.evaluate("document.querySelector('.inbox').classList.remove('listing')")
    assert not broken


@pytest.mark.parametrize("path", ["/approvals/", "/", "/calls/"])
def test_what_ended_while_the_live_link_was_down_does_not_wait_for_ever(
    server: Server, visit: Open, run: str, path: str
) -> None:
    page = visit(path)
    page.wait_for_selector("body[data-live=up]")
    decision = ask(server, run, call_id=run)
    if path == "/calls/":  # there, new calls wait behind a button
        page.reload()
    card(page, run).locator("button[value=deny]").first.wait_for(state="attached")
    page.wait_for_selector("body[data-live=up]")
    cut_link(page, seconds=4)
    server.request("POST", f"/api/v1/approvals/{decision['approval']['id']}/withdraw", {})
    page.wait_for_selector("body[data-live=up]")
    expect(page.locator(f"article[data-call-id='{run}'][data-waiting]")).to_have_count(0)
