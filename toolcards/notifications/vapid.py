"""Identifies this server to push services (VAPID, RFC 8292), by one key pair per installation.

It is derived from SECRET_KEY, and stored with the first browser.
"""

from __future__ import annotations

import json
import time
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from django.conf import settings

from toolcards.encryption import DecryptionError, UnreadableText, derive_key
from toolcards.models.notifications import PushKey
from toolcards.notifications.formats import get_origin
from toolcards.notifications.push_encryption import decode_base64url, encode_base64url, encode_point

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
