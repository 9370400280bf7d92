"""The dashboard as an app: its service worker answers while the server is away, and keeps nothing of its reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser_pages import NEEDS_BROWSER, Open, ask
from tests.support.server import Server

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]

CACHED = """async () => {
  const files = [];
  for (const name of await caches.keys()) {
    for (const request of await (await caches.open(name)).keys()) files.push(new URL(request.url).pathname);
  }
  return files;
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may be stopped."""
    data: Path = tmp_path_factory.mktemp("installation")
    with Server(data) as running:
        yield running


def test_the_app_says_that_the_server_is_away_and_keeps_no_page(server: Server, visit: Open, run: str) -> None:
    ask(server, run)
    page = visit("/approvals/")
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    page.goto(f"{server.base}/runs/")
    page.goto(f"{server.base}/approvals/")
    assert page.locator("article[data-waiting]").count() == 1  # pages come from the server
    files = page.evaluate(CACHED)
    assert "/offline/" in files and all(file == "/offline/" or file.startswith("/static/") for file in files)
    server.stop()
    page.goto(f"{server.base}/approvals/")
    assert "cannot be reached" in page.locator("main").inner_text()
    server.start()
    page.get_by_role("link", name="Try again").click()
    page.wait_for_selector("article[data-waiting]")
