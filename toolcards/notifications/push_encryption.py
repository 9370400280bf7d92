"""Encrypts messages for browsers (RFC 8291, with the content coding aes128gcm of RFC 8188)."""

from __future__ import annotations

import base64
import binascii
import json
import os
import time
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings

from toolcards.encryption import DecryptionError, UnreadableText, derive_key
from toolcards.models.notifications import PushKey
from toolcards.notifications.formats import get_origin

# Identifies this server to push services (VAPID, RFC 8292), by one key pair per installation.
#
# It is derived from SECRET_KEY, and stored with the first browser.
LIFE = 12 * 3600  # seconds for which a token is valid; push services accept at most 24 hours
_ROW = 1  # the pk of the only key
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of the curve P-256


def load_key() -> ec.EllipticCurvePrivateKey:
    """Return the key pair: the stored one, else that of SECRET_KEY.

    Raises DecryptionError. It writes nothing.
    """
    row = PushKey.objects.filter(pk=_ROW).first()
    if row is None:
        number = 1 + int.from_bytes(derive_key(settings.SECRET_KEY, "push"), "big") % (_ORDER - 1)
    elif type(row.private) is UnreadableText:
        raise DecryptionError("the push key cannot be decrypted: its key is missing")
    else:
        number = int.from_bytes(decode_base64url(row.private), "big")
    return ec.derive_private_key(number, ec.SECP256R1())


def store_key() -> None:
    """Store the key pair, so that it outlives a new SECRET_KEY.

    Raises DecryptionError.
    """
    number = load_key().private_numbers().private_value
    PushKey.objects.get_or_create(pk=_ROW, defaults={"private": encode_base64url(number.to_bytes(32, "big"))})


def get_public_key() -> str:
    """Return the public key that browsers subscribe with, base64url; raises DecryptionError."""
    return encode_base64url(encode_point(load_key().public_key()))


def build_authorization(endpoint: str, now: float | None = None) -> str:
    """Return the value of the header `Authorization`; raises DecryptionError."""
    key = load_key()
    parts = urlsplit(endpoint)
    claims = {
        "aud": f"{parts.scheme}://{parts.netloc}", "exp": int(time.time() if now is None else now) + LIFE,
        "sub": _get_contact(),
    }  # fmt: skip
    content = ".".join(encode_base64url(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256"}, claims))
    first, second = decode_dss_signature(key.sign(content.encode(), ec.ECDSA(SHA256())))
    signature = encode_base64url(first.to_bytes(32, "big") + second.to_bytes(32, "big"))
    return f"vapid t={content}.{signature}, k={encode_base64url(encode_point(key.public_key()))}"


def _get_contact() -> str:
    """Return where the push service can reach the operator: a URL or a mail address."""
    origin = get_origin()
    return origin if origin.startswith("https:") else f"mailto:{settings.TOOLCARDS.mail_from}"


RECORD_SIZE = 4096  # bytes that push services accept at least (RFC 8030, section 7.2)
POINT_SIZE, AUTH_SIZE, SALT_SIZE = 65, 16, 16
MAX_TEXT = RECORD_SIZE - SALT_SIZE - 4 - 1 - POINT_SIZE - 16 - 1  # without header, tag and delimiter
_LAST_RECORD = b"\x02"


class InvalidKeys(ValueError):
    """The keys of a browser are not what RFC 8291 says."""


def encode_base64url(raw: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Return the bytes of base64url with or without padding; raises ValueError."""
    unpadded_text = text.rstrip("=")
    try:
        raw = base64.b64decode(unpadded_text + "=" * (-len(unpadded_text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("not base64url") from error
    return raw


def encode_point(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return the public key as an uncompressed point of 65 bytes."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def parse_browser_keys(public_key: str, auth: str) -> tuple[ec.EllipticCurvePublicKey, bytes]:
    """Return the browser's public key and secret; raises InvalidKeys."""
    try:
        point, secret = decode_base64url(public_key), decode_base64url(auth)
        if len(point) != POINT_SIZE or len(secret) != AUTH_SIZE:
            raise InvalidKeys("The keys of this browser have the wrong length.")
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point), secret
    except InvalidKeys:
        raise
    except ValueError as error:
        raise InvalidKeys("The keys of this browser are invalid.") from error


def encrypt(text: bytes, public_key: str, auth: str) -> bytes:
    """Return the body of a push request, at most 4096 bytes.

    Raises InvalidKeys, and ValueError for more than MAX_TEXT bytes.
    """
    browser_key, secret = parse_browser_keys(public_key, auth)
    return encrypt_with(text, browser_key, secret, ec.generate_private_key(ec.SECP256R1()), os.urandom(SALT_SIZE))


def encrypt_with(
    text: bytes, browser_key: ec.EllipticCurvePublicKey, auth: bytes, own_key: ec.EllipticCurvePrivateKey, salt: bytes
) -> bytes:
    """Return the body; key and salt must be new for each message."""
    if len(text) > MAX_TEXT:
        raise ValueError("the message is too long")
    own_point = encode_point(own_key.public_key())
    info = b"WebPush: info\0" + encode_point(browser_key) + own_point
    shared_key = _derive(own_key.exchange(ec.ECDH(), browser_key), auth, info, 32)
    content_key = _derive(shared_key, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(shared_key, salt, b"Content-Encoding: nonce\0", 12)
    header = salt + RECORD_SIZE.to_bytes(4, "big") + bytes([POINT_SIZE]) + own_point
    return header + AESGCM(content_key).encrypt(nonce, text + _LAST_RECORD, None)


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt=salt, info=info).derive(secret)
