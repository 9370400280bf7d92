"""Messages for browsers: the example of RFC 8291, and texts of all kinds that a browser decrypts again."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from tests.support.push_service import Browser, decode, encode
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
