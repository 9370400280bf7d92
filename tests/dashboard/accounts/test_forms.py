"""Forms that check a password: what counts as a failed attempt, and passwords that are too long."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import hashers
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from dashboard.accounts.forms import MAX_PASSWORD, OwnPasswordForm, SignInForm
from dashboard.accounts.guessing.hashing import HashingBusy
from dashboard.accounts.guessing.throttle import DEVICE, PAIR, TooManyAttempts
from tests.support.accounts import PASSWORD, SESSION, read_details, sign_in

pytestmark = pytest.mark.django_db
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
