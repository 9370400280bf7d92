"""VAPID: one key pair per installation, encrypted in the database, and tokens that push services accept."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from tests.support.push_service import decode, verify_authorization
from toolcards import encryption
from toolcards.models import PushKey
from toolcards.notifications import vapid

NOW = 1_800_000_000.0
ENDPOINT = "https://push.example:8443/send/abc?x=1"


@pytest.mark.django_db
def test_the_key_is_stored_once_encrypted_and_outlives_a_new_secret(settings: Any) -> None:
    public = vapid.get_public_key()
    assert len(decode(public)) == 65 and not PushKey.objects.exists()
    for _ in range(2):
        vapid.store_key()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "quite another key", [settings.SECRET_KEY]
    assert vapid.get_public_key() == public and PushKey.objects.count() == 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT private FROM toolcards_pushkey")
        assert cursor.fetchone()[0].startswith(encryption.MARK)


@pytest.mark.django_db
def test_a_token_is_for_the_origin_of_the_push_service_and_expires() -> None:
    header = vapid.build_authorization(ENDPOINT, NOW)
    verify_authorization(header, "https://push.example:8443", NOW)
    assert header.endswith(f", k={vapid.get_public_key()}")


@pytest.mark.django_db
def test_the_contact_is_our_https_origin_if_there_is_one(settings: Any) -> None:
    settings.TOOLCARDS = settings.TOOLCARDS.model_copy(update={"origins": ["https://cards.example"]})
    claims = verify_authorization(vapid.build_authorization(ENDPOINT, NOW), "https://push.example:8443", NOW)
    assert claims["sub"] == "https://cards.example"


@pytest.mark.django_db
def test_a_key_of_another_secret_is_reported_and_kept(settings: Any) -> None:
    vapid.store_key()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "quite another key", []
    with pytest.raises(encryption.DecryptionError):
        vapid.get_public_key()
    assert PushKey.objects.count() == 1
