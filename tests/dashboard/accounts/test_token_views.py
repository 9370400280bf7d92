"""The page of personal tokens: each person's own, shown once, and revoked by them or an admin."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from toolcards.models import PersonalToken

pytestmark = pytest.mark.django_db
PAGE = "/settings/tokens/"


@pytest.fixture
def bea_signed_in(client: Client, bea: Any) -> Client:
    client.force_login(bea)
    return client


def create(client: Client, **fields: Any) -> Any:
    return client.post(PAGE, {"name": "terminal", "scopes": ["read", "vote"], "days": 30} | fields)


def test_a_new_token_is_shown_once_and_works(bea_signed_in: Client, bea: Any) -> None:
    page = create(bea_signed_in).content.decode()
    secret = re.findall(r"data-secret>([^<]+)<", page)[0]
    token = PersonalToken.objects.find_by_secret(secret)
    assert token is not None and (token.person, token.name, token.scopes) == (bea, "terminal", "read vote")
    assert timedelta(days=29) < token.expires_at - timezone.now() <= timedelta(days=30)
    later = bea_signed_in.get(PAGE).content.decode()
    assert "terminal" in later and secret not in later


@pytest.mark.parametrize(
    "fields", [{"scopes": []}, {"scopes": ["policy"]}, {"days": 0}, {"days": 400}, {"name": ""}, {"name": "x" * 101}]
)
def test_what_the_form_cannot_take_creates_nothing(bea_signed_in: Client, fields: dict[str, Any]) -> None:
    answer = create(bea_signed_in, **fields)
    assert answer.status_code == 422 and b"errorlist" in answer.content
    assert not PersonalToken.objects.exists()


def test_only_the_scopes_of_the_role_can_be_chosen(bea_signed_in: Client) -> None:
    page = bea_signed_in.get(PAGE).content.decode()
    assert re.findall(r'name="scopes" value="(\w+)"', page) == ["read", "vote"]


def test_a_token_needs_a_recent_sign_in(bea_signed_in: Client) -> None:
    session = bea_signed_in.session
    session["signed_in_at"] = 1.0
    session.save()
    answer = create(bea_signed_in)
    assert answer.status_code == 401 and b"Sign in again to create a token" in answer.content
    assert not PersonalToken.objects.exists()


def test_people_revoke_their_own_tokens_alone(bea_signed_in: Client, bea: Any, a_person: Any) -> None:
    own, _ = PersonalToken.objects.issue(bea, "mine", ["read"], 1)
    other, _ = PersonalToken.objects.issue(a_person("viewer", "ben"), "not of bea", ["read"], 1)
    assert b"not of bea" not in bea_signed_in.get(PAGE).content
    assert bea_signed_in.post(f"{PAGE}{own.pk}/revoke/").status_code == 302
    assert bea_signed_in.post(f"{PAGE}{other.pk}/revoke/").status_code == 404
    assert list(PersonalToken.objects.live()) == [other]


def test_an_admin_revokes_all_tokens_of_a_person(admin: Client, bea: Any) -> None:
    PersonalToken.objects.issue(bea, "mine", ["read"], 1)
    page = admin.get(f"/settings/people/{bea.pk}/").content.decode()
    assert "1 active" in page
    admin.post(f"/settings/people/{bea.pk}/tokens/revoke/")
    assert not PersonalToken.objects.live().exists()


def test_names_are_escaped(bea_signed_in: Client, bea: Any) -> None:
    PersonalToken.objects.issue(bea, "<script>x</script>", ["read"], 1)
    assert b"<script>x" not in bea_signed_in.get(PAGE).content
