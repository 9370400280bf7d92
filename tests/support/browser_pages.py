"""Helpers of browser tests: send calls to a server, and find their cards on a page."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import quote

import pytest

from tests.support.server import PATIENCE, Server

NAMES = (os.environ.get("TOOLCARDS_BROWSER", ""), "chromium-headless-shell", "chromium", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
NEEDS_BROWSER = [pytest.mark.browser, pytest.mark.skipif(BROWSER is None, reason="not here: a browser")]
# Messages of the browser itself while a server is down.
QUIET = ("WebSocket", "net::ERR", "htmx:ws:error", "fetching the script")

Open = Callable[..., Any]


def expect(subject: Any) -> Any:
    """Return Playwright's assertions about a page or elements: they wait until they are true.

    A press returns before the page has acted on it. Whatever follows one is asserted so, or after another sign.
    """
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE * 1000)
    return expect(subject)


def let_pass(page: Any, milliseconds: int) -> None:
    """Wait on the clock of the page, whose earlier timers have gone off by then, however busy the machine is."""
    page.evaluate("milliseconds => new Promise(done => setTimeout(done, milliseconds))", milliseconds)


def watch_posts(page: Any) -> list[str]:
    """Return a list to which the addresses of all later POST requests are added."""
    posted: list[str] = []
    page.on("request", lambda request: posted.append(request.url) if request.method == "POST" else None)
    return posted


def patient(context: Any) -> Any:
    """Return the browser's context with long time limits for busy machines."""
    context.set_default_timeout(PATIENCE * 1000)
    return context


class Desk:
    """A browser's contexts, handed from test to test and from server to server, signed in as the admin.

    A page costs CPU: in a new context 1.3 s, in one that was used 0.9 s, and less than half of that if another page
    keeps its window open. So each context has a first page that stays empty. Half of the rest is the new process of a
    page, so the page of a test is handed on as well, on a small page of the same site: an empty one would take another
    process. Handed on, a context has the cookies of a fresh sign-in and an empty storage.
    """

    OF_CONTEXTS = frozenset({"java_script_enabled"})  # other options need a context of their own
    OF_PAGES = frozenset({"viewport", "color_scheme", "reduced_motion"})
    VIEWPORT: ClassVar = {"width": 1280, "height": 720}

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self._states: dict[Server, dict[str, Any]] = {}
        self._free: dict[str, list[Any]] = {}

    def sign_in(self, server: Server) -> dict[str, Any]:
        """Sign in once to each server; return cookies and storage."""
        if server not in self._states:
            context = self._take({})
            page = context.new_page()
            page.goto(f"{server.base}/login/")
            page.fill("[name=username]", "admin")
            page.fill("[name=password]", server.password)
            page.locator("main button").click()
            page.wait_for_url(lambda url: "/login/" not in url)
            self._states[server] = context.storage_state()
            self.put_back(context, server, {})
        return self._states[server]

    def open_page(self, server: Server, how: dict[str, Any]) -> Any:
        """Return an empty page with these options, in a context that no one else uses."""
        state = self.sign_in(server)
        context = self._take({name: value for name, value in how.items() if name not in self.OF_PAGES})
        context.add_cookies(state["cookies"])
        page = context.pages[1] if len(context.pages) > 1 else context.new_page()
        page.set_viewport_size(how.get("viewport", self.VIEWPORT))
        page.emulate_media(**{name: how.get(name, "null") for name in ("color_scheme", "reduced_motion")})
        return page

    def put_back(self, context: Any, server: Server, how: dict[str, Any]) -> None:
        """Clear the context for the next test, or close it if that cannot be done."""
        options = {name: value for name, value in how.items() if name not in self.OF_PAGES}
        if not context.pages or options.keys() - self.OF_CONTEXTS:
            context.close()
            return
        resting, *used_pages = context.pages
        for page in used_pages[:1]:
            self._park(page, server)
        for page in used_pages[1:]:
            page.close()
        session = context.new_cdp_session(resting)
        session.send("Storage.clearDataForOrigin", {"origin": server.base, "storageTypes": "all"})
        session.detach()
        context.clear_cookies()
        self._free.setdefault(json.dumps(options, sort_keys=True), []).append(context)

    @staticmethod
    def _park(page: Any, server: Server) -> None:
        """Leave the page's site without leaving its process, or close it if the server does not answer."""
        try:
            page.unroute_all()
            page.mouse.move(-10, -10)
            page.goto(server.base + "/healthz")
            page.evaluate("sessionStorage.clear()")
        except Exception:
            page.close()

    def _take(self, options: dict[str, Any]) -> Any:
        free = self._free.get(json.dumps(options, sort_keys=True))
        if free:
            return free.pop()
        context = patient(self.browser.new_context(**options))
        if not options.keys() - self.OF_CONTEXTS:
            context.new_page()
        return context


# Stops the clock with which a page measures durations; `GO_ON` starts it again.
STOP_THE_CLOCK = "(() => { const at = performance.now(); performance.now = () => at; })()"
GO_ON = "delete performance.now"
LINE_STAYS, CARD_STAYS_OPEN = 8_000, 10_000  # milliseconds: of a decided call, and of a call that has just ended


def skip(page: Any, milliseconds: int) -> None:
    """Put the clock with which the page measures durations forward; what is due then happens at its next look."""
    page.evaluate(
        "time => { const now = performance.now.bind(performance); performance.now = () => now() + time; }", milliseconds
    )


# Sums the layout shifts from now on, those just after the reader's own input excepted.
WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts.push(entry.value);
}).observe({type: 'layout-shift'});
"""
SUM_SHIFTS = "window.shifts.reduce((sum, value) => sum + value, 0)"


def waiting(server: Server) -> list[str]:
    """Return the waiting approvals. Those of other tests may end at any time."""
    return [one["id"] for one in server.get("/api/v1/approvals?state=waiting&limit=200")["approvals"]]


def path_of(run: str) -> str:
    return f"/runs/{quote(run, safe='')}/"


def tell(server: Server, run: str, *frames: dict[str, Any], skip_count: int = 0) -> None:
    """Send the frames as one body.

    The server must skip `skip_count` of them and refuse none.
    """
    body = "".join(json.dumps(frame) + "\n" for frame in frames)
    where = f"/api/v1/ingest?protocol=native&run={quote(run, safe='')}&agent=bot"
    status, answer, _ = server.request("POST", where, body, Content_Type="application/x-ndjson")
    assert status == 200 and not answer.get("refused") and answer["skipped"] == skip_count, answer


def ask(server: Server, run: str, call_id: str = "c1", **args: Any) -> dict[str, Any]:
    body = {"run": run, "call_id": call_id, "tool": "Edit", "args": args or {"path": "a.py"}}
    status, decision, _ = server.request("POST", "/api/v1/calls/decide", body)
    assert status == 200 and decision["decision"] == "ask", decision
    return dict(decision)


def card(page: Any, call_id: str = "c1") -> Any:
    return page.locator(f"article[data-call-id='{call_id}']")


def in_state(page: Any, state: str, call_id: str = "c1") -> None:
    page.wait_for_selector(f"article[data-call-id='{call_id}'][data-state='{state}']")


def armed(page: Any, call_id: str = "c1") -> None:
    page.wait_for_selector(f"article[data-call-id='{call_id}'] button[value=approve]:not([aria-disabled])")


def cut_link(page: Any, seconds: float) -> None:
    """Close the page's socket; it connects again after so many seconds."""
    socket = "document.querySelector('[data-socket=me]')._htmx.ws.connection"
    settings = f"{{reconnectDelay: {int(seconds * 1000)}, reconnectJitter: 0}}"
    page.evaluate(f"Object.assign({socket}.config, {settings}); {socket}.socket.close()")
    page.wait_for_selector("body[data-live=down]")


def withdraw_all(server: Server) -> None:
    """Withdraw every call that waits."""
    for approval in waiting(server):
        server.request("POST", f"/api/v1/approvals/{approval}/withdraw", {})


def build_done_call(call_id: str) -> list[dict[str, Any]]:
    """Return the frames of a call that ends well."""
    return [
        {"type": "tool.input.available", "call_id": call_id, "tool": "Read", "input": {"path": call_id}},
        {"type": "tool.output.available", "call_id": call_id, "output": "ok"},
    ]
