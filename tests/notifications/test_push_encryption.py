"""Messages for browsers: the example of RFC 8291, and texts of all kinds that a browser decrypts again."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from tests.support.push_service import Browser, decode, encode, verify_authorization
from toolcards import encryption
from toolcards.models import PushKey
from toolcards.notifications import push_encryption
from toolcards.notifications.push_encryption import MAX_TEXT, InvalidKeys, encrypt, encrypt_with, parse_browser_keys

# RFC 8291, appendix A
TEXT = b"When I grow up, I want to be a watermelon"
OWN_PRIVATE, SALT = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "DGv6ra1nlYgDCS1FRnbzlw"
BROWSER_PRIVATE, AUTH = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94", "BTBZMqHH6r4Tts7J_aSIgg"
BROWSER_PUBLIC = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
    "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
BROWSER = Browser(BROWSER_PRIVATE, AUTH)


def test_the_example_of_the_standard_is_encrypted_to_the_same_bytes() -> None:
    browser_key, auth = parse_browser_keys(BROWSER_PUBLIC, AUTH)
    own_key = ec.derive_private_key(int.from_bytes(decode(OWN_PRIVATE), "big"), ec.SECP256R1())
    assert encode(encrypt_with(TEXT, browser_key, auth, own_key, decode(SALT))) == BODY
    assert encode(BROWSER.point) == BROWSER_PUBLIC and BROWSER.decrypt(decode(BODY)) == TEXT


@given(st.binary(max_size=MAX_TEXT))
def test_the_browser_decrypts_any_text(text: bytes) -> None:
    assert BROWSER.decrypt(encrypt(text, BROWSER_PUBLIC, AUTH)) == text


def test_the_longest_text_fills_a_record_and_a_longer_one_is_refused() -> None:
    assert len(encrypt(b"x" * MAX_TEXT, BROWSER_PUBLIC, AUTH)) == 4096
    with pytest.raises(ValueError, match="too long"):
        encrypt(b"x" * (MAX_TEXT + 1), BROWSER_PUBLIC, AUTH)


def test_equal_texts_get_different_bodies_and_no_other_browser_reads_them() -> None:
    bodies = {encrypt(TEXT, BROWSER_PUBLIC, AUTH) for _ in range(20)}
    assert len({body[:16] for body in bodies}) == len({body[21:86] for body in bodies}) == 20
    for stranger in (Browser(auth=AUTH), Browser(BROWSER_PRIVATE, encode(bytes(16)))):
        with pytest.raises(InvalidTag):
            stranger.decrypt(bodies.copy().pop())


@pytest.mark.parametrize(
    ("public_key", "auth"),
    [
        ("", AUTH), (BROWSER_PUBLIC, ""), (BROWSER_PUBLIC[:-4], AUTH), (BROWSER_PUBLIC, AUTH[:-4]),
        (BROWSER_PUBLIC + "AAAA", AUTH), ("!" * 87, AUTH), (BROWSER_PUBLIC, "é" * 22), ("B" + "A" * 86, AUTH),
        (encode(b"\x04" + bytes(64)), AUTH), (encode(b"\x04" + b"\xff" * 64), AUTH), (encode(bytes(65)), AUTH),
    ],
)  # fmt: skip
def test_invalid_keys_are_refused(public_key: str, auth: str) -> None:
    with pytest.raises(InvalidKeys):
        encrypt(TEXT, public_key, auth)


@given(st.text(max_size=100), st.text(max_size=40))
def test_any_text_as_keys_is_refused_plainly(public_key: str, auth: str) -> None:
    with pytest.raises(InvalidKeys):
        parse_browser_keys(public_key, auth)


NOW = 1_800_000_000.0
ENDPOINT = "https://push.example:8443/send/abc?x=1"


@pytest.mark.django_db
def test_the_key_is_stored_once_encrypted_and_outlives_a_new_secret(settings: Any) -> None:
    public = push_encryption.get_public_key()
    assert len(decode(public)) == 65 and not PushKey.objects.exists()
    for _ in range(2):
        push_encryption.store_key()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "quite another key", [settings.SECRET_KEY]
    assert push_encryption.get_public_key() == public and PushKey.objects.count() == 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT private FROM toolcards_pushkey")
        assert cursor.fetchone()[0].startswith(encryption.MARK)


@pytest.mark.django_db
def test_a_token_is_for_the_origin_of_the_push_service_and_expires() -> None:
    header = push_encryption.build_authorization(ENDPOINT, NOW)
    verify_authorization(header, "https://push.example:8443", NOW)
    assert header.endswith(f", k={push_encryption.get_public_key()}")


@pytest.mark.django_db
def test_the_contact_is_our_https_origin_if_there_is_one(settings: Any) -> None:
    settings.TOOLCARDS = settings.TOOLCARDS.model_copy(update={"origins": ["https://cards.example"]})
    claims = verify_authorization(push_encryption.build_authorization(ENDPOINT, NOW), "https://push.example:8443", NOW)
    assert claims["sub"] == "https://cards.example"


@pytest.mark.django_db
def test_a_key_of_another_secret_is_reported_and_kept(settings: Any) -> None:
    push_encryption.store_key()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "quite another key", []
    with pytest.raises(encryption.DecryptionError):
        push_encryption.get_public_key()
    assert PushKey.objects.count() == 1
