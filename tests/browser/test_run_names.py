"""Two runs with one name, in a browser: their live pages, and answers on a page that shows both."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.accessibility import find_violations
from tests.support.browser_pages import NEEDS_BROWSER, Open, expect
from tests.support.server import KEY, Server

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]


@pytest.fixture(scope="module")
def asking_server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server that asks about every call."""
    with Server(tmp_path_factory.mktemp("twins"), default_effect="ask") as running:
        running.twin = running.manage("agentkey", "create", "a twin").stdout.split()[-1]  # type: ignore[attr-defined]
        yield running


@pytest.fixture(scope="module")
def server(asking_server: Any) -> Any:
    return asking_server


def ask(server: Server, key: str, run: str, target: str) -> str:
    body = {"run": run, "call_id": "c", "tool": "deploy", "args": {"target": target}}
    status, decision, _ = server.request("POST", "/api/v1/calls/decide", body, key=key)
    assert (status, decision["decision"]) == (200, "ask")
    return str(decision["approval"]["id"])


def state(server: Server, key: str, approval: str) -> str:
    return str(server.request("GET", f"/api/v1/approvals/{approval}", key=key)[1]["approval"]["state"])


def test_a_live_page_keeps_to_its_run_though_another_source_takes_the_name(server: Any, visit: Open, run: str) -> None:
    ask(server, KEY, run, "REAL")
    page = visit(f"/runs/{run.replace('/', '%2F')}/")
    ask(server, server.twin, run, "IMPOSTOR")
    ask_more = {"run": run, "call_id": "later", "tool": "deploy", "args": {}}
    server.request("POST", "/api/v1/calls/decide", ask_more)
    page.wait_for_selector('#board article[data-call-id="later"]')
    expect(page.locator("#board article")).to_have_count(2)
    assert "IMPOSTOR" not in page.locator("main").inner_text()
    page.reload()
    with page.expect_navigation():
        page.get_by_role("link", name="automation").click()
    page.wait_for_selector('#board article[data-call-id="later"]')
    assert "IMPOSTOR" not in page.locator("main").inner_text()


@pytest.mark.parametrize("name", [".", ".."])
def test_a_run_of_dots_has_a_live_page_and_an_address_in_the_api(server: Any, visit: Open, name: str) -> None:
    ask(server, KEY, name, "REAL")
    page = visit("/runs/")
    with page.expect_navigation():
        page.locator("main").get_by_role("link", name=name, exact=True).click()
    page.wait_for_selector("body[data-live=up]")
    server.request("POST", "/api/v1/calls/decide", {"run": name, "call_id": "later", "tool": "deploy", "args": {}})
    page.wait_for_selector('#board article[data-call-id="later"]')
    path = f"{server.base}/api/v1/runs/{name}%C2%AD"
    read = "async path => [await (await fetch(path)).json(), await (await fetch(`${path}/calls`)).json()]"
    run, calls = page.evaluate(read, path)
    assert run["run"] == name and len(calls["calls"]) == 2
    assert server.request("POST", f"/api/v1/runs/{name}%C2%AD/end", {})[1]["status"] == "finished"


def test_an_answer_on_a_page_of_both_is_for_the_card_that_it_stands_on(server: Any, visit: Open, run: str) -> None:
    real, impostor = ask(server, KEY, run, "REAL"), ask(server, server.twin, run, "IMPOSTOR")
    page = visit("/approvals/")
    card = page.locator(f'article[data-run="{run}"][data-source="a twin"]')
    card.locator("button[value=deny]").click()
    page.wait_for_selector(f'article[data-run="{run}"][data-source="a twin"][data-state=output-denied]')
    assert page.locator(f'article[data-run="{run}"][data-source="automation"][data-waiting]').count() == 1
    assert (state(server, KEY, real), state(server, server.twin, impostor)) == ("pending", "denied")


def test_the_choice_is_accessible_and_fits_a_phone(server: Any, visit: Open, run: str) -> None:
    ask(server, KEY, run, "REAL"), ask(server, server.twin, run, "IMPOSTOR " * 40)
    page = visit(f"/runs/{run.replace('/', '%2F')}/", viewport={"width": 390, "height": 800}, reduced_motion="reduce")
    assert not find_violations(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_runs_and_grants_fit_a_phone_and_name_their_sources(server: Any, visit: Open, run: str) -> None:
    for key in (KEY, server.twin):
        ask(server, key, run, "HERE")
    page = visit("/approvals/", viewport={"width": 390, "height": 800})
    for name in ("automation", "a twin"):
        card = page.locator(f'article[data-run="{run}"][data-source="{name}"]')
        card.get_by_text("Also allow repeats").click()
        card.locator("select[name=grant]").select_option("run")
        card.locator("button[value=approve]").click()
        page.wait_for_selector(f'article[data-run="{run}"][data-source="{name}"]:not([data-waiting])', state="attached")
    for path, at in (("/policy/grants/", ""), ("/runs/", "in view")):
        page.goto(server.base + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert not find_violations(page, "light")
        for name in ("automation", "a twin"):
            box = page.locator("main tr", has_text=run).get_by_text(f"of {name}", exact=True).bounding_box()
            assert box and (not at or box["x"] + box["width"] <= 390)
