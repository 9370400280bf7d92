"""Sessions read by a prepared statement behave as Django's own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessionStore
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from dashboard.accounts.sessions import SessionStore

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("key", ["", "unknown", "x' OR '1'='1"])
def test_an_unknown_key_opens_an_empty_session_and_is_not_kept(key: str) -> None:
    store = SessionStore(session_key=key)
    assert dict(store.items()) == {}
    assert store.session_key is None


def test_a_session_that_has_expired_is_empty() -> None:
    store = SessionStore()
    store["seat"] = 7
    store.save()
    assert SessionStore(store.session_key)["seat"] == DatabaseSessionStore(store.session_key)["seat"] == 7
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    expired = SessionStore(store.session_key)
    assert expired.get("seat") is None
    assert expired.session_key is None


def test_a_person_who_signed_in_before_the_update_stays_signed_in(admin_user: object, client: Client) -> None:
    old = DatabaseSessionStore()
    client.force_login(admin_user)  # type: ignore[arg-type]
    old.update(dict(client.session.items()))
    old.create()
    client.cookies["toolcards_session"] = str(old.session_key)
    assert client.get("/approvals/").status_code == 200
