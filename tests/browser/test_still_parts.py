"""Parts of pages that stay where they are: times, the legend of a run, its timeline, and what was answered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.browser_pages import (
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
    tell,
    withdraw_all,
)
from tests.support.server import PATIENCE, Server, until

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]

# Notes each duration that is empty while the page draws a frame.
WATCH_EMPTY_TIMES = """() => {
  window.empty = 0, window.swaps = 0;
  new MutationObserver(() => {
    window.swaps += 1;
    window.empty += document.querySelectorAll('#run-head time[data-since]:empty').length;
  }).observe(document.getElementById('run-head'), {childList: true, subtree: true, attributes: true});
}"""


def send(socket: Any, frames: Iterable[dict[str, Any]], total: int) -> None:
    """Send the frames, and wait until all `total` of the socket are stored: only then the run has a page."""
    for frame in frames:
        socket.send(json.dumps(frame))
    until(lambda: json.loads(socket.recv(PATIENCE)).get("frames") == total)


def test_a_duration_is_never_empty_while_the_header_of_a_run_is_renewed(server: Server, visit: Open, run: str) -> None:
    with server.socket(protocol="native", run=run, mode="observe") as socket:
        send(socket, build_done_call("a"), 2)
        page = visit(path_of(run))
        expect(page.locator("#run-head time[data-since]")).not_to_be_empty()
        page.evaluate(WATCH_EMPTY_TIMES)
        for n in range(3):
            for frame in build_done_call(f"b{n}"):
                socket.send(json.dumps(frame))
            expect(page.locator("#run-head b").first).to_have_text(f"{n + 2} calls")
    assert page.evaluate("window.swaps") and page.evaluate("window.empty") == 0


def test_the_counts_of_ended_calls_stand_before_those_of_open_ones(server: Server, visit: Open, run: str) -> None:
    running = {"type": "tool.input.available", "call_id": "open", "tool": "Read", "input": {}}
    failed = [
        build_done_call("bad")[0],
        {"type": "tool.output.error", "call_id": "bad", "error": {"message": "it broke"}},
    ]
    with server.socket(protocol="native", run=run, mode="observe") as socket:
        send(socket, (running, *failed, *build_done_call("a")), 5)
        page = visit(f"{path_of(run)}?tab=steps")
        legend = page.locator("#run-head .legend > span")
        expect(legend).to_have_text(["Done 1", "Failed 1", "Running 1"])
        page.evaluate(WATCH_SHIFTS)
        socket.send(json.dumps({"type": "tool.output.available", "call_id": "open", "output": "ok"}))
        expect(legend).to_have_text(["Done 2", "Failed 1"])
    assert page.evaluate(SUM_SHIFTS) <= 0.002


def test_an_overview_that_comes_moves_nothing_of_the_timeline(server: Server, visit: Open, run: str) -> None:
    def call(n: int) -> list[dict[str, Any]]:
        return [frame | {"agent_path": [f"worker-{n % 3}"]} for frame in build_done_call(f"c{n}")]

    with server.socket(protocol="native", run=run, mode="observe") as socket:
        send(socket, [frame for n in range(299) for frame in call(n)], 598)
        page = visit(f"{path_of(run)}?tab=timeline", viewport={"width": 1280, "height": 800})
        expect(page.locator("#run-head b").first).to_have_text("299 calls")
        assert page.locator("[data-minimap]").count() == 0
        page.evaluate(WATCH_SHIFTS)
        for frame in [frame for n in range(299, 305) for frame in call(n)]:
            socket.send(json.dumps(frame))
        expect(page.locator("[data-minimap]")).to_be_in_viewport()
    assert page.evaluate(SUM_SHIFTS) <= 0.02


def test_calls_that_come_do_not_move_those_that_were_answered(server: Server, visit: Open, run: str) -> None:
    withdraw_all(server)
    for n in range(3):
        ask(server, run, call_id=f"{run}-{n}")
    page = visit("/approvals/", viewport={"width": 1280, "height": 800})
    for n in range(2):
        card(page, f"{run}-{n}").locator("button[value=deny]").click()
        expect(page.locator("#queue .ended .line")).to_have_count(n + 1)
    answered_line = page.locator("#queue .ended .line").first
    place = answered_line.bounding_box()
    page.evaluate(WATCH_SHIFTS)
    for n in range(3, 6):
        ask(server, run, call_id=f"{run}-{n}")
        expect(page.locator("#queue .lines:not(.ended) .line")).to_have_count(n - 1)
    assert answered_line.bounding_box() == place and page.evaluate(SUM_SHIFTS) <= 0.02
    withdraw_all(server)


def test_a_card_whose_output_the_reader_opened_is_not_folded(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *[frame for n in range(30) for frame in build_done_call(f"a{n}")])
    page = visit(path_of(run), viewport={"width": 1280, "height": 800})
    open_card = card(page, "a22")
    page.evaluate("() => document.querySelectorAll('.folded button').forEach(button => button.click())")
    open_card.locator("summary").last.click()
    expect(open_card.locator("details[open]")).to_have_count(1)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    tell(server, run, *[frame for n in range(30, 36) for frame in build_done_call(f"a{n}")])
    expect(card(page, "a35")).to_be_attached()
    let_pass(page, 1_000)
    assert not open_card.evaluate("card => card.parentElement.hidden")
