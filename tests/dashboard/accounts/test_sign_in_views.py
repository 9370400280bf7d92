"""Signing in by password and by link: refusals, records, and the person that a link names before use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.accounts import sign_in_links
from dashboard.accounts.guessing import throttle
from dashboard.accounts.guessing.throttle import PAIR, TooManyAttempts
from tests.support.accounts import HERE, PASSWORD, SESSION, read_details, sign_in

pytestmark = pytest.mark.django_db


# ---------------------------------------------------------------- guesses
def test_guesses_are_slowed_down_and_say_for_how_long(bea: User) -> None:
    guesser = Client()
    answers = [sign_in(guesser, password="wrong") for _ in range(PAIR.size + 3)]
    assert [answer.status_code for answer in answers] == [200] * PAIR.size + [429] * 3
    assert (
        0 < int(answers[-1]["Retry-After"]) <= PAIR.refill
        and "Too many failed attempts" in answers[-1].content.decode()
    )
    assert sign_in(guesser).status_code == 429  # not even with the right one: else the answer would tell which it is
    (row,) = read_details("signin.throttled")
    assert 0 < row.pop("seconds") <= PAIR.refill and row == {"typed": "bea", "from": "127.0.0.1"}
    assert len(read_details("signin.refused")) == PAIR.size


def test_a_name_that_is_not_there_is_slowed_down_alike(bea: User) -> None:
    for name in ("bea", "nobody"):
        answers = [sign_in(Client(), name, "wrong", address="10.0.0.7") for _ in range(PAIR.size + 1)]
        assert [answer.status_code for answer in answers] == [200] * PAIR.size + [429], name
        assert "nobody" not in str(read_details("signin.throttled"))


def test_who_guesses_a_name_does_not_keep_its_owner_out(bea: User) -> None:
    known_browser, other_browser = Client(), Client()
    assert sign_in(known_browser).status_code == 302
    known_browser.post("/logout/")
    for address in (HERE, *(f"10.0.0.{n}" for n in range(60))):
        with pytest.raises(TooManyAttempts):
            for _ in range(PAIR.size + 1):
                throttle.sign_ins.admit("bea", address)  # as each wrong password does
    assert sign_in(Client()).status_code == 429
    assert sign_in(other_browser, address="192.0.2.9").status_code == 302  # from an address without failures
    assert sign_in(known_browser).status_code == 302  # from the attacker's own address, with a browser that is known


def test_the_django_admin_has_no_door_of_its_own(bea: User, a_person: Any) -> None:
    assert Client().get("/admin/", follow=True).redirect_chain[-1][0] == "/login/?next=%2Fadmin%2F"
    answer = Client().post("/admin/login/?next=/admin/", {"username": "bea", "password": PASSWORD})
    assert answer.status_code == 302 and SESSION not in answer.cookies
    viewer, boss = Client(), Client()
    viewer.force_login(bea)
    assert viewer.get("/admin/", follow=True).status_code == 403
    boss.force_login(a_person("admin", "boss"))
    assert boss.get("/admin/login/?next=/admin/", follow=True).redirect_chain[-1][0] == "/admin/"


@pytest.mark.parametrize("field", ["username", "password"])
def test_a_nul_is_refused(bea: User, field: str) -> None:
    fields = {"username": "bea", "password": PASSWORD}
    assert Client().post("/login/", fields | {field: fields[field] + "\0"}).status_code == 400


# ---------------------------------------------------------------- sessions and where to go on
def test_signing_in_begins_another_session(bea: User) -> None:
    client = Client()
    client.session["planted"] = True
    session = client.session
    session.save()
    client.cookies[SESSION] = session.session_key
    for enter in (
        lambda: sign_in(client),
        lambda: client.post(sign_in_links.make_link(User.objects.get(pk=bea.pk), "")),
    ):
        before = client.cookies[SESSION].value
        assert enter().status_code == 302
        assert client.cookies[SESSION].value != before
        assert Client(headers={"cookie": f"{SESSION}={before}"}).get("/").status_code == 302
        client.post("/logout/")
        client.cookies[SESSION] = before


@pytest.mark.parametrize("expected", [
    "//evil.example", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", "\t//evil.example", "/login/",
    "/login/?next=/login/", "/login/link/x/", "/logout/", "/admin/login/?next=/admin/", "///evil.example", "",
    "/%0d%0aX-Evil:1", "http:///evil.example", "/\r\nX-Evil: 1",
])  # fmt: skip
def test_sign_in_redirects_only_to_our_pages_and_never_in_a_loop(bea: User, expected: str) -> None:
    client = Client()
    answer = sign_in(client, next=expected)
    target = answer["Location"]
    assert (
        answer.status_code == 302 and target.startswith("/") and not target.startswith(("//", "/\\", "/log", "/admin"))
    )
    assert "X-Evil" not in answer
    again = client.get("/login/", {"next": expected})
    assert again.status_code == 302 and again["Location"] == target


# ---------------------------------------------------------------- links
def test_opening_a_link_names_the_account_and_uses_nothing_up(bea: User) -> None:
    link = sign_in_links.make_link(bea, "")
    for _ in range(3):
        for look in (Client().get, Client().head):
            answer = look(link)
            assert answer.status_code == 200 and SESSION not in answer.cookies
    html = Client().get(link).content.decode()
    assert "Sign in as bea" in html and len(re.findall("<button", html)) == 1 and 'method="post"' in html
    assert User.objects.get(pk=bea.pk).last_login is None and not read_details("signin")
    guest = Client()
    assert guest.post(link)["Location"] == "/" and guest.get("/approvals/").status_code == 200
    assert read_details("signin")[0]["way"] == "link"
    assert Client().get(link).status_code == 410 and Client().post(link).status_code == 410


def test_an_image_on_another_page_does_not_switch_who_is_signed_in(bea: User, a_person: Any) -> None:
    mine = Client()
    mine.force_login(a_person("viewer", "cleo"))
    link = sign_in_links.make_link(bea, "")
    assert "You are signed in as cleo" in mine.get(link).content.decode()
    assert "cleo" in mine.get("/").content.decode() and "bea" not in mine.get("/").content.decode()


def test_a_foreign_page_cannot_press_the_button(bea: User, a_person: Any) -> None:
    victim = Client(enforce_csrf_checks=True)
    link = sign_in_links.make_link(bea, "")
    assert victim.post(link).status_code == 403 and SESSION not in victim.cookies
    token = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', victim.get(link).content.decode())[0]
    assert victim.post(link, {"csrfmiddlewaretoken": token}).status_code == 302


# ---------------------------------------------------------------- signing in
def test_name_and_password_open_the_door(client: Client, a_person: Callable[..., Any]) -> None:
    a_person("viewer", "vera")
    answer = client.post(
        "/login/", {"username": "vera", "password": "a password for tests", "next": "/runs/?status=error"}
    )
    assert answer.status_code == 302 and answer.headers["Location"] == "/runs/?status=error"


@pytest.mark.parametrize(
    "expected", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example", "evil"]
)
def test_next_stays_on_this_site(client: Client, a_person: Callable[..., Any], expected: str) -> None:
    a_person("viewer", "vera")
    by_name = {"username": "vera", "password": "a password for tests", "next": expected}
    assert client.post("/login/", by_name).headers["Location"] == "/"


def test_a_wrong_password_shows_a_message(client: Client) -> None:
    answer = client.post("/login/", {"username": "vera", "password": "no"})
    assert answer.status_code == 200 and "Wrong name or password" in answer.content.decode()


def test_signing_out_takes_a_post(viewer: Client) -> None:
    assert viewer.get("/logout/").status_code == 405
    assert viewer.post("/logout/").headers["Location"] == "/login/"
    assert viewer.get("/").status_code == 302
