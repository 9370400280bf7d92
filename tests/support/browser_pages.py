"""Helpers of browser tests: send calls to a server, and find their cards on a page."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.server import PATIENCE, Server

NAMES = (os.environ.get("TOOLCARDS_BROWSER", ""), "chromium-headless-shell", "chromium", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
NEEDS_BROWSER = [pytest.mark.browser, pytest.mark.skipif(BROWSER is None, reason="not here: a browser")]
QUIET = ("WebSocket", "net::ERR", "htmx:ws:error")  # messages of the browser itself while a server is down

Open = Callable[..., Any]


def patient(context: Any) -> Any:
    """Return the browser's context with long time limits for busy machines."""
    context.set_default_timeout(PATIENCE * 1000)
    return context


# Stops the clock with which a page measures durations; `GO_ON` starts it again.
STOP_THE_CLOCK = "(() => { const at = performance.now(); performance.now = () => at; })()"
GO_ON = "delete performance.now"


def waiting(server: Server) -> list[str]:
    """Return the waiting approvals. Those of other tests may end at any time."""
    return [one["id"] for one in server.get("/api/v1/approvals?state=waiting&limit=200")["approvals"]]


def path_of(run: str) -> str:
    return f"/runs/{quote(run, safe='')}/"


def tell(server: Server, run: str, *frames: dict[str, Any], skipped: int = 0) -> None:
    """Send the frames as one body.

    The server must skip `skipped` of them and refuse none.
    """
    body = "".join(json.dumps(frame) + "\n" for frame in frames)
    where = f"/api/v1/ingest?protocol=native&run={quote(run, safe='')}&agent=bot"
    status, answer, _ = server.request("POST", where, body, Content_Type="application/x-ndjson")
    assert status == 200 and not answer.get("refused") and answer["skipped"] == skipped, answer


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
