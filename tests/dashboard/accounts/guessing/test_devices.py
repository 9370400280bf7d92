"""Browsers that are known: for their own people only, and without letting anyone in."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.accounts import sign_in_links
from dashboard.accounts.guessing.throttle import DEVICE, PAIR
from tests.support.accounts import DEVICES, sign_in

pytestmark = pytest.mark.django_db


def test_a_known_browser_is_known_for_its_own_people_only(bea: User, a_person: Any) -> None:
    a_person("viewer", "cleo")
    browser = Client()
    assert sign_in(browser, "cleo").status_code == 302
    browser.post("/logout/")
    for _ in range(PAIR.size):
        sign_in(browser, password="wrong")
    assert sign_in(browser).status_code == 429
    assert sign_in(browser, "cleo").status_code == 302


def test_the_cookie_of_a_browser_lets_no_one_in_and_cannot_be_made_up(bea: User) -> None:
    browser = Client()
    sign_in(browser)
    cookie = browser.cookies[DEVICES]
    assert cookie["httponly"] and cookie["samesite"] == "Lax" and "bea" not in cookie.value
    stolen = Client()
    stolen.cookies[DEVICES] = cookie.value
    assert stolen.get("/").status_code == 302
    assert sum(sign_in(stolen, password="wrong").status_code == 200 for _ in range(50)) == DEVICE.size
    forged = Client()
    forged.cookies[DEVICES] = cookie.value[:-1] + ("A" if cookie.value[-1] != "A" else "B")
    for _ in range(PAIR.size):
        sign_in(forged, password="wrong", address="10.3.3.3")
    assert sign_in(forged, password="wrong", address="10.3.3.3").status_code == 429


def test_a_browser_that_came_by_a_link_is_known(bea: User) -> None:
    browser = Client()
    browser.post(sign_in_links.make_link(bea, ""))
    browser.post("/logout/")
    for _ in range(PAIR.size + 1):
        sign_in(Client(), password="wrong")
    assert sign_in(Client()).status_code == 429 and sign_in(browser).status_code == 302
