"""Pages confirm the frames of their live links, so that the server sends no more than a page can handle."""

from __future__ import annotations

import time
from typing import Any

from tests.support.browser_pages import NEEDS_BROWSER, Open, build_done_call, in_state, let_pass, path_of, tell
from tests.support.server import PATIENCE, Server

pytestmark = NEEDS_BROWSER


def test_a_page_confirms_each_frame_that_it_has_handled(server: Server, visit: Open, run: str) -> None:
    tell(server, run, *build_done_call("c1"))
    page = visit("/runs/", live=False)
    received: list[str] = []
    confirmed: list[str] = []

    def watch(link: Any) -> None:
        if "/ws/runs/" in link.url:
            link.on("framereceived", lambda frame: received.append(str(frame)))
            link.on("framesent", lambda frame: confirmed.append(str(frame)))

    page.on("websocket", watch)
    page.goto(f"{server.base}{path_of(run)}")
    page.wait_for_selector("body[data-live=up]")
    for number in range(2, 6):
        tell(server, run, *build_done_call(f"c{number}"))
        in_state(page, "output-available", f"c{number}")
    until = time.monotonic() + PATIENCE
    while len(confirmed) < len(received) and time.monotonic() < until:
        let_pass(page, 100)
    assert len(received) == len(confirmed) >= 5 and set(confirmed) == {"ok"}
