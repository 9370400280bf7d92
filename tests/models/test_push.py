"""Browsers that show notifications: one person's each, sealed, and gone with the person."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from toolcards.models import PushBrowser, PushKey

pytestmark = pytest.mark.django_db
ENDPOINT = "https://push.example/a-secret-address"


def add_browser(person: Any, digest: str = "d") -> PushBrowser:
    return PushBrowser.objects.create(
        person=person, endpoint=ENDPOINT, endpoint_sha256=digest, public_key="k", auth="shared",
        sign_in="s", label="Firefox",
    )  # fmt: skip


def test_a_browser_shows_the_calls_of_one_person(an_approver: Any, a_person: Any) -> None:
    browser = add_browser(an_approver)
    with pytest.raises(IntegrityError), transaction.atomic():
        add_browser(a_person("viewer"))
    assert str(browser) == "Firefox"
    an_approver.delete()
    assert not PushBrowser.objects.exists()


def test_no_address_and_no_key_is_readable_in_the_database(an_approver: Any) -> None:
    add_browser(an_approver)
    PushKey.objects.create(private="a-private-key")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT endpoint, auth FROM toolcards_pushbrowser UNION ALL SELECT private, '' FROM toolcards_pushkey"
        )
        rows = str(cursor.fetchall())
    assert not any(secret in rows for secret in (ENDPOINT, "shared", "a-private-key"))
    assert PushBrowser.objects.get().endpoint == ENDPOINT and PushKey.objects.get().private == "a-private-key"


def test_no_role_can_be_given_a_right_to_read_them() -> None:
    assert PushBrowser._meta.default_permissions == PushKey._meta.default_permissions == ()
