"""Fixtures of this folder: a browser, a signed-in person, and pages whose console errors fail the test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser_pages import BROWSER, QUIET, Open, patient
from tests.support.server import Server

_runs = (f"live/{number}" for number in itertools.count(1))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def signed_in(browser: Any, server: Server) -> Any:
    """The cookies of the admin."""
    context = patient(browser.new_context())
    page = context.new_page()
    page.goto(f"{server.base}/login/")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", server.password)
    page.locator("main button").click()
    page.wait_for_url(lambda url: "/login/" not in url)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def visit(browser: Any, server: Server, signed_in: Any) -> Iterator[Open]:
    """Give `visit(path, **context)`: a page that is live; whatever its console complains of fails the test."""
    contexts, faults = [], []

    def go(path: str, *, live: bool = True, **how: Any) -> Any:
        context = patient(browser.new_context(storage_state=signed_in, **how))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda value: faults.append(value.text) if value.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(server.base + path)
        if live:
            page.wait_for_selector("body[data-live=up]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert not [fault for fault in faults if not any(quiet in fault for quiet in QUIET)]


@pytest.fixture
def run() -> str:
    return next(_runs)
