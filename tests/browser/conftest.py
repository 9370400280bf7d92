"""Fixtures of this folder: a browser, a signed-in person, and pages whose console errors fail the test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser_pages import BROWSER, QUIET, Desk, Open
from tests.support.server import Server

_runs = (f"live/{number}" for number in itertools.count(1))


class SharedBrowser:
    """One browser for all modules, and its desk."""

    def __init__(self) -> None:
        self._driver: Any = None
        self.browser: Any = None
        self.desk: Any = None

    def start(self) -> Any:
        """Start it unless it runs; return it."""
        if self.browser is None:
            self._driver = pytest.importorskip("playwright.sync_api").sync_playwright().start()
            arguments = ["--no-sandbox", "--disable-gpu"]
            self.browser = self._driver.chromium.launch(executable_path=BROWSER, args=arguments)
            self.desk = Desk(self.browser)
        return self.browser

    def stop(self) -> None:
        """End it if it runs."""
        if self.browser is not None:
            self.browser.close()
            self._driver.stop()
            self.browser = self._driver = self.desk = None


SHARED = SharedBrowser()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End the browser before tests of other folders: its event loop would be in their way."""
    yield
    if nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent):
        SHARED.stop()


@pytest.fixture(scope="module")
def browser() -> Any:
    return SHARED.start()


@pytest.fixture(scope="module")
def desk(browser: Any) -> Desk:
    """The contexts of the browser."""
    return SHARED.desk


@pytest.fixture
def visit(desk: Desk, server: Server) -> Iterator[Open]:
    """Give `visit(path, **options)`: a page that is live; whatever its console complains of fails the test."""
    faults: list[str] = []
    visits: list[tuple[Any, dict[str, Any]]] = []

    def note_message(message: Any) -> None:
        if message.type in ("error", "warning"):
            faults.append(message.text)

    def note_error(error: Any) -> None:
        faults.append(str(error))

    def open_page(path: str, *, live: bool = True, **options: Any) -> Any:
        page = desk.open_page(server, options)
        visits.append((page, options))
        page.on("console", note_message)
        page.on("pageerror", note_error)
        page.goto(server.base + path)
        if live:
            page.wait_for_selector("body[data-live=up]")
        return page

    yield open_page
    for page, options in visits:
        page.remove_listener("console", note_message)
        page.remove_listener("pageerror", note_error)
        desk.put_back(page.context, server, options)
    assert not [fault for fault in faults if not any(quiet in fault for quiet in QUIET)]


@pytest.fixture
def run() -> str:
    return next(_runs)
