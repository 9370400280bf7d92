"""Signing in by password and by link: refusals, records, and the person that a link names before use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import hashers
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from dashboard.accounts import sign_in_links
from dashboard.accounts.guessing import throttle
from dashboard.accounts.guessing.hashing import HashingBusy
from dashboard.accounts.guessing.throttle import DEVICE, PAIR, TooManyAttempts
from dashboard.accounts.sign_in_views import MAX_PASSWORD, OwnPasswordForm, SignInForm
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


NEW = "quite another"


def try_to_sign_in(name: str = "bea", password: str = PASSWORD, address: str = "10.0.0.1") -> bool:
    """Return whether the form takes the name and the password."""
    request = RequestFactory(REMOTE_ADDR=address).post("/login/")
    return SignInForm(request, {"username": name, "password": password}).is_valid()


def test_the_right_password_forgives_failures_before_it(bea: User) -> None:
    for _ in range(3):
        assert [try_to_sign_in(password="wrong") for _ in range(PAIR.size - 1)] == [False] * (PAIR.size - 1)
        assert try_to_sign_in()


def test_an_attempt_that_comes_too_often_is_not_checked(bea: User) -> None:
    for _ in range(PAIR.size):
        assert not try_to_sign_in(password="wrong")
    with pytest.raises(TooManyAttempts) as refusal:
        try_to_sign_in()
    assert 0 < refusal.value.wait <= PAIR.refill
    assert try_to_sign_in(address="10.0.0.2")


@pytest.mark.parametrize(("name", "password"), [("", PASSWORD), ("bea", ""), ("", "")])
def test_an_incomplete_form_is_no_attempt(bea: User, name: str, password: str) -> None:
    for _ in range(PAIR.size + 3):
        assert not try_to_sign_in(name, password)
    assert try_to_sign_in()


def test_the_audit_trail_has_a_throttled_name_only_if_it_is_an_account(bea: User) -> None:
    for name in ("bea", "my-secret"):
        for _ in range(PAIR.size):
            try_to_sign_in(name, "wrong")
        for _ in range(2):  # the second one is not written again
            with pytest.raises(TooManyAttempts):
                try_to_sign_in(name, "wrong")
    rows = [{key: row[key] for key in row if key != "seconds"} for row in read_details("signin.throttled")]
    assert rows == [{"typed": "bea", "from": "10.0.0.1"}, {"from": "10.0.0.1"}]


def change_password(person: User, old: str, session: str = "s", new: str = NEW) -> OwnPasswordForm:
    return OwnPasswordForm(person, {"old_password": old, "new_password1": new, "new_password2": new}, session=session)


def test_a_password_that_could_not_be_checked_is_no_failed_attempt(bea: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> bool:
        raise HashingBusy

    with monkeypatch.context() as patch:
        patch.setattr(hashers.MD5PasswordHasher, "verify", refuse)
        for _ in range(2 * max(PAIR.size, DEVICE.size)):
            with pytest.raises(HashingBusy):
                try_to_sign_in()
            with pytest.raises(HashingBusy):
                change_password(bea, PASSWORD).is_valid()
    assert try_to_sign_in() and change_password(bea, PASSWORD).is_valid()


def test_a_throttled_session_gets_the_time_to_try_again(bea: User) -> None:
    for _ in range(DEVICE.size):
        assert change_password(bea, "wrong").errors.as_data()["old_password"][0].code == "password_incorrect"
    (error,) = change_password(bea, PASSWORD).errors.as_data()["old_password"]
    assert error.code == "later" and "Try again in" in str(error.message)
    assert change_password(bea, PASSWORD, session="another").is_valid()
    assert try_to_sign_in()  # signing in is another thing


def test_a_new_password_is_one_to_sign_in_with(bea: User) -> None:
    too_long = SetPasswordForm(bea, {"new_password1": "xy" * MAX_PASSWORD, "new_password2": "xy" * MAX_PASSWORD})
    for form in (change_password(bea, PASSWORD, new="x" * (MAX_PASSWORD + 1)), too_long):
        assert "can’t be longer than 4,096 characters" in str(form.errors)
    longest = change_password(bea, PASSWORD, new="xy" * (MAX_PASSWORD // 2))
    assert longest.is_valid(), longest.errors
    longest.save()
    assert try_to_sign_in(password="xy" * (MAX_PASSWORD // 2))


def test_a_wrong_old_password_is_slowed_down_for_that_session_alone(bea: User) -> None:
    thief, owner = Client(), Client()
    thief.force_login(bea)
    owner.force_login(bea)
    fields = {"new_password1": "quite another", "new_password2": "quite another"}
    codes = [
        thief.post("/settings/password/", fields | {"old_password": f"{n}"}).status_code for n in range(DEVICE.size + 2)
    ]
    assert codes == [422] * DEVICE.size + [429] * 2
    assert thief.post("/settings/password/", fields | {"old_password": PASSWORD}).status_code == 429
    assert owner.post("/settings/password/", fields | {"old_password": PASSWORD}).status_code == 302


@pytest.mark.parametrize(("name", "password"), [
    ("b" * 10**6, PASSWORD), ("bea", "x" * 10**6), ("bea", PASSWORD + " " * 5000), ("\uff42" * 10**5, "x"),
    ("\ufdfa" * 50_000, "x"), ("bea", "\ud7ff" * 5000), ("", ""), ("bea", ""), ("bea\u200b", PASSWORD), (" ", PASSWORD),
])  # fmt: skip
def test_odd_and_huge_names_and_passwords_do_not_sign_in(bea: User, name: str, password: str) -> None:
    answer = sign_in(Client(), name, password)
    assert answer.status_code == 200 and SESSION not in answer.cookies


def test_a_password_that_is_too_long_is_not_hashed(bea: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(User, "check_password", lambda *value: pytest.fail("it was hashed"))
    assert sign_in(Client(), password="x" * 5000).status_code == 200
