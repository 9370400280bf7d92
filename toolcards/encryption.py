"""Keeps what agents and people said sealed at rest: a text column that is encrypted on its way into the database.

AES-256-GCM under subkeys, one for every hour, derived (HKDF) from SECRET_KEY; keys of SECRET_KEY_FALLBACKS still open
what they sealed. Nonces are random, which is good for 2^32 texts a key: a million a second for an hour.
A text is bound to its table and column. It is not bound to its row, and a text that never was sealed is read
as it is: whoever can write to the database could put such a one in place. Sealing keeps secrets; that nothing was
changed is for the audit trail to tell.
"""

from __future__ import annotations

import binascii
import hmac
import os
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from django.conf import settings
from django.db import models

from toolcards.core.redaction.redactor import Redactor

MARK = "sealed:1:"
_STAMP, _NONCE = 3, 12  # bytes: the hour since 1970, then the nonce, then what was sealed with its tag
_HOUR = 3_600


class DecryptionError(ValueError):
    """None of our keys opens this, or it was changed."""


class UnreadableText(str):
    """What no key of ours opens, as it stands in the database. It is no JSON, and is written back as it came."""

    __slots__ = ()


def seal(texts: Iterable[str], place: str, head: str = "") -> list[str]:
    """Return the texts encrypted for that place; the same text never gives the same twice. Nothing stays nothing.

    `head`: texts that begin so keep this, and what follows up to the next quote, in the clear.
    """
    known = list(texts)
    hour = int(time.time()) // _HOUR
    stamp, encrypt = hour.to_bytes(_STAMP, "big"), _get_cipher(settings.SECRET_KEY, hour).encrypt
    fresh = os.urandom(_NONCE * len(known))
    sealed: list[str] = []
    for number, text in enumerate(known):
        if not text or type(text) is UnreadableText:
            sealed.append(text)
            continue
        clear = _split_clear_head(text, head) if head else ""
        nonce = fresh[number * _NONCE : (number + 1) * _NONCE]
        plain = (text[len(clear) :] if clear else text).encode("utf-8", "surrogatepass")
        raw = stamp + nonce + encrypt(nonce, plain, _build_associated_data(place, clear))
        sealed.append(clear + MARK + binascii.b2a_base64(raw, newline=False).decode("ascii"))
    return sealed


def open(text: str, place: str, head: str = "") -> str:  # noqa: A001 - the word for it
    """Return what was sealed for that place; a text that never was is itself. Raises DecryptionError."""
    clear = _split_clear_head(text, head) if head else ""
    if not text.startswith(MARK, len(clear)):
        return text
    raw, bound = _decode(text[len(clear) + len(MARK) :]), _build_associated_data(place, clear)
    hour, nonce, body = raw[:_STAMP], raw[_STAMP : _STAMP + _NONCE], raw[_STAMP + _NONCE :]
    for secret in _list_secrets():
        try:
            cipher = _get_cipher(secret, int.from_bytes(hour, "big"))
            return clear + cipher.decrypt(nonce, body, bound).decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):
            continue
    raise DecryptionError("no key of ours opens this")


def open_all(texts: Iterable[str], place: str) -> list[str]:
    """Return many texts of one place as a column without a `head` gives them: what no key opens is `Closed`.

    A third cheaper than one by one: rows that were written together were sealed under one key.
    """
    bound, start, opened = _build_associated_data(place, ""), len(MARK), []
    hour, decrypt = b"", None
    for text in texts:
        try:
            if text.startswith(MARK):
                raw = binascii.a2b_base64(text[start:], strict_mode=True)
                if decrypt is None or raw[:_STAMP] != hour:
                    hour = raw[:_STAMP]
                    decrypt = _get_cipher(settings.SECRET_KEY, int.from_bytes(hour, "big")).decrypt
                plain = decrypt(raw[_STAMP : _STAMP + _NONCE], raw[_STAMP + _NONCE :], bound)
                text = plain.decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):  # an older key, or none
            try:
                text = open(text, place)
            except DecryptionError:
                text = UnreadableText(text)
        opened.append(text)
    return opened


def classify(text: str, place: str, head: str = "") -> str:
    """Return how a text is kept there: `new` under today's key, `old` under an older one, `plain` or `closed`."""
    clear = _split_clear_head(text, head) if head else ""
    if not text.startswith(MARK, len(clear)):
        return "plain" if text else "new"
    try:
        raw = _decode(text[len(clear) + len(MARK) :])
        hour, nonce, body = raw[:_STAMP], raw[_STAMP : _STAMP + _NONCE], raw[_STAMP + _NONCE :]
        _get_cipher(settings.SECRET_KEY, int.from_bytes(hour, "big")).decrypt(
            nonce, body, _build_associated_data(place, clear)
        )
    except (InvalidTag, ValueError):
        try:
            open(text, place, head)
        except DecryptionError:
            return "closed"
        return "old"
    return "new"


class SealedText(models.TextField):  # type: ignore[type-arg]  # generic in the stubs only
    """A text column that holds its text sealed. Not for searching: only "is it empty" can be asked.

    With a `head`, texts keep their beginning in the clear (see `seal`), and can be found by it.
    """

    def __init__(self, *args: Any, head: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head = head

    @property
    def place(self) -> str:
        """What a sealed text is bound to. Whoever renames the table or the column seals its texts anew."""
        return f"{self.model._meta.db_table}.{self.column}"

    def seal(self, texts: Iterable[str]) -> list[str]:
        """Return the texts as this column holds them (for those who write rows without the ORM)."""
        return seal(texts, self.place, self.head)

    def open(self, text: str) -> str:
        """Return a text as it was before this column sealed it; raises DecryptionError."""
        return open(text, self.place, self.head)

    def open_all(self, texts: Iterable[str]) -> list[str]:
        """Return the texts of many rows, for those who read rows without the ORM; not for a column with a `head`."""
        return open_all(texts, self.place)

    def get_prep_value(self, value: Any) -> Any:
        """Seal what is written."""
        prepared = value if type(value) is UnreadableText else super().get_prep_value(value)
        return self.seal([prepared])[0] if prepared else prepared

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Open what is read; what no key opens is `Closed`, so nobody can take it for what was said."""
        try:
            return self.open(value) if value else value
        except DecryptionError:
            return UnreadableText(value)

    def get_lookup(self, lookup_name: str) -> Any:
        """Refuse to look into what is sealed."""
        able = {"exact", "isnull", "in", *(("startswith",) if self.head else ())}
        return super().get_lookup(lookup_name) if lookup_name in able else None

    def deconstruct(self) -> Any:
        """For migrations it is a text like any other."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs


def _split_clear_head(text: str, head: str) -> str:
    """The beginning of the text that stays readable."""
    return text[: text.find('"', len(head)) + 1] if text.startswith(head) else ""


@lru_cache(maxsize=1_024)
def _build_associated_data(place: str, clear: str) -> bytes:
    """What comes with a sealed text: moved elsewhere, or begun otherwise, it does not open."""
    return f"{MARK}{place}{clear}".encode()


def _decode(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise DecryptionError("this is not whole") from None


def _list_secrets() -> tuple[str, ...]:
    return (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)


@lru_cache(maxsize=8)
def _derive_root_key(secret: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=b"toolcards.encryption").derive(secret.encode())


@lru_cache(maxsize=4_096)
def _get_cipher(secret: str, hour: int) -> AESGCM:
    return AESGCM(
        HKDFExpand(SHA256(), 32, info=b"toolcards.encryption.hour %d" % hour).derive(_derive_root_key(secret))
    )


# ---------------------------------------------------------------- other keys from the same secret


def derive_key(secret: str, purpose: str) -> bytes:
    """Return a 32-byte key for one purpose only: HMAC-SHA256 of the purpose under the secret."""
    return hmac.digest(secret.encode(), f"toolcards.{purpose}".encode(), "sha256")


def get_redactor() -> Redactor:
    """Return the redactor with this server's key."""
    return _build_redactor(settings.SECRET_KEY)


@lru_cache(maxsize=2)
def _build_redactor(secret: str) -> Redactor:
    return Redactor(derive_key(secret, "redact"))
