"""The form of a new agent key: its scopes, its end, and the secret that only its maker sees."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dashboard.sources.forms import KeyForm
from tests.support.tables import loop_over
from toolcards.models import EVERY_SCOPE, READ_ALL, SCOPES, AgentKey
from toolcards.models.sources import MAX_KEY_DAYS


@pytest.mark.django_db
def test_a_key_is_issued_with_its_scopes_and_its_end() -> None:
    form = KeyForm({"name": " robot ", "scopes": ["ingest", READ_ALL], "expires_in": str(MAX_KEY_DAYS)})
    assert form.is_valid(), form.errors
    key, secret = form.issue()
    assert (key.source.name, set(key.scopes.split())) == ("robot", {"ingest", READ_ALL})
    assert AgentKey.objects.find_by_secret(secret) == key
    assert key.expires_at is not None
    remaining = key.expires_at - timezone.now()
    assert timedelta(days=MAX_KEY_DAYS - 1) < remaining <= timedelta(days=MAX_KEY_DAYS, seconds=5)


@pytest.mark.django_db
def test_a_key_without_an_end_works_until_it_is_revoked() -> None:
    form = KeyForm({"name": "robot", "scopes": ["read"]})
    assert form.is_valid() and form.issue()[0].expires_at is None


@loop_over(("change", "fields"), [
    ({"name": ""}, {"name"}), ({"name": "x" * 201}, {"name"}), ({"name": "a\0"}, {"name"}),
    ({"scopes": []}, {"scopes"}), ({"scopes": ["root"]}, {"scopes"}),
    ({"expires_in": "0"}, {"expires_in"}), ({"expires_in": "-1"}, {"expires_in"}),
    ({"expires_in": str(MAX_KEY_DAYS + 1)}, {"expires_in"}), ({"expires_in": "9" * 400}, {"expires_in"}),
    ({"expires_in": "1.5"}, {"expires_in"}), ({"expires_in": "1"}, set()), ({"scopes": list(EVERY_SCOPE)}, set()),
])  # fmt: skip
def test_what_is_no_key_is_refused_at_its_field(change: dict[str, Any], fields: set[str]) -> None:
    assert set(KeyForm({"name": "robot", "scopes": ["read"]} | change).errors) == fields


def test_reading_every_source_is_offered_and_not_chosen() -> None:
    choices = {value for value, _ in KeyForm().fields["scopes"].choices}  # type: ignore[attr-defined]
    assert choices == set(EVERY_SCOPE) and READ_ALL in choices
    assert set(KeyForm().fields["scopes"].initial) == set(SCOPES) and READ_ALL not in SCOPES
