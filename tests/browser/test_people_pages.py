"""The pages about people in a real browser: without scripts, and on a phone."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.accessibility import find_violations
from tests.support.browser_pages import NEEDS_BROWSER, Open, expect, patient
from tests.support.server import Server

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]


def signed_in_anew(browser: Any, server: Server, **how: Any) -> Any:
    """A page of the admin, who has just signed in: other tests may have taken long."""
    page = patient(browser.new_context(**how)).new_page()
    page.goto(f"{server.base}/login/?next=/settings/people/")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", server.password)
    page.locator("main button").click()
    page.wait_for_url(lambda url: url.endswith("/settings/people/"))
    return page


def test_a_person_is_invited_changed_and_deactivated_without_scripts(browser: Any, server: Server) -> None:
    name = f"bea-{uuid.uuid4().hex[:6]}"
    page = signed_in_anew(browser, server, java_script_enabled=False)
    page.fill("[name=name]", name)
    page.select_option("[name=role]", "approver")
    with page.expect_navigation():
        page.get_by_role("button", name="Invite").click()
    link = page.locator("[data-link]").inner_text()
    guest = patient(browser.new_context(java_script_enabled=False)).new_page()
    guest.goto(link)
    guest.get_by_role("button", name=f"Sign in as {name}").click()
    guest.wait_for_url(f"{server.base}/")
    expect(guest.locator(".who")).to_contain_text(name)
    with page.expect_navigation():
        page.get_by_role("link", name="People").first.click()
    with page.expect_navigation():
        page.get_by_role("link", name=name).click()
    page.fill("[name=groups]", "sre, night")
    with page.expect_navigation():
        page.get_by_role("button", name="Save").click()
    expect(page.locator("dd code")).to_have_text(["night", "sre"])
    with page.expect_navigation():
        page.get_by_role("button", name="Deactivate").click()
    expect(page.locator(".flash")).to_contain_text("deactivated")
    guest.goto(f"{server.base}/approvals/")
    assert "/login/" in guest.url
    for one in (page, guest):
        one.context.close()


def test_the_pages_fit_a_phone(visit: Open) -> None:
    page = visit("/settings/people/", viewport={"width": 390, "height": 800})
    for path in ("/settings/people/", "/settings/people/1/", "/settings/password/"):
        page.goto(page.url.split("/settings")[0] + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        expect(page.locator("h1")).to_be_visible()


def test_the_page_of_a_link_is_accessible(browser: Any, server: Server) -> None:
    link = server.manage("person", "link", "admin").stdout.split()[-1]
    page = patient(browser.new_context(viewport={"width": 390, "height": 800}, reduced_motion="reduce")).new_page()
    for path in (link, f"{server.base}/login/link/used/", f"{server.base}/login/"):
        page.goto(path)
        assert not find_violations(page), path
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.context.close()
