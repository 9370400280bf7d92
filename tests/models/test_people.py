"""Saved filters are a person's own; personal tokens work while they, their person and their time last."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.utils import timezone

from tests.support.accounts import read_last
from toolcards.models import PersonalToken, SavedFilter
from toolcards.models.people import MAX_TOKENS, TOKEN_SCOPES, TooManyTokens, list_granted_scopes

pytestmark = pytest.mark.django_db


def test_a_token_is_found_by_its_secret_which_is_not_stored(an_approver: Any) -> None:
    token, secret = PersonalToken.objects.issue(an_approver, "terminal", {"vote", "read"}, 30)
    assert PersonalToken.objects.find_by_secret(secret) == token
    assert PersonalToken.objects.find_by_secret(secret + "x") is None
    assert secret not in str(PersonalToken.objects.filter(pk=token.pk).values())
    assert token.scopes == "read vote" and secret.startswith("tcp_")
    assert read_last("token.created").details["name"] == "terminal"


@pytest.mark.parametrize("end", ["revoked", "expired", "person off", "person deleted"])
def test_a_token_ends_with_its_time_its_revocation_and_its_person(a_person: Any, end: str) -> None:
    person = a_person("approver", "bea")
    token, secret = PersonalToken.objects.issue(person, "terminal", ["vote"], 30)
    if end == "revoked":
        assert PersonalToken.objects.filter(pk=token.pk).revoke() == 1
        assert PersonalToken.objects.filter(pk=token.pk).revoke() == 0
        assert read_last("token.revoked").details["person"] == "bea"
    elif end == "expired":
        PersonalToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    elif end == "person off":
        person.is_active = False
        person.save(update_fields=["is_active"])
        person.is_active = True
        person.save(update_fields=["is_active"])  # who comes back starts without tokens
    else:
        person.delete()
    assert PersonalToken.objects.find_by_secret(secret) is None


@pytest.mark.parametrize(("scopes", "days"), [([], 30), (["everything"], 30), (["read"], 0), (["read"], 366)])
def test_a_token_has_known_scopes_and_an_end_within_a_year(an_approver: Any, scopes: list[str], days: int) -> None:
    with pytest.raises(ValueError, match="scopes of read vote policy audit, and 1 to 365 days"):
        PersonalToken.objects.issue(an_approver, "terminal", scopes, days)


def test_a_person_has_a_bounded_number_of_tokens(an_approver: Any) -> None:
    for number in range(MAX_TOKENS):
        PersonalToken.objects.issue(an_approver, f"t{number}", ["read"], 1)
    with pytest.raises(TooManyTokens):
        PersonalToken.objects.issue(an_approver, "one more", ["read"], 1)
    PersonalToken.objects.filter(name="t0").revoke()
    PersonalToken.objects.issue(an_approver, "one more", ["read"], 1)


@pytest.mark.parametrize(
    ("role", "granted_scopes"),
    [("viewer", {"read"}), ("approver", {"read", "vote"}), ("admin", {"read", "vote", "policy", "audit"})],
)
def test_the_role_bounds_the_scopes(a_person: Any, role: str, granted_scopes: set[str]) -> None:
    person = a_person(role, "bea")
    assert list_granted_scopes(person, TOKEN_SCOPES) == granted_scopes
    person.groups.remove(Group.objects.get(name=role))
    assert not list_granted_scopes(type(person).objects.get(pk=person.pk), TOKEN_SCOPES)


def test_a_name_is_used_once_by_a_person_on_a_page(an_approver: Any, a_person: Any) -> None:
    SavedFilter.objects.create(person=an_approver, page="calls", name="Mine", query="q=a")
    with pytest.raises(IntegrityError), transaction.atomic():
        SavedFilter.objects.create(person=an_approver, page="calls", name="Mine", query="q=b")
    SavedFilter.objects.create(person=an_approver, page="runs", name="Mine", query="q=a")
    other = SavedFilter.objects.create(person=a_person("viewer"), page="calls", name="Mine", query="q=a")
    an_approver.delete()
    assert [*SavedFilter.objects.all()] == [other] and str(other) == "Mine"
    assert SavedFilter._meta.default_permissions == ()
