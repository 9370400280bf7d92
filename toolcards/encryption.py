"""Encryption at rest for texts of agents and people: a text column that the database gets encrypted.

AES-256-GCM with a subkey for every hour, derived (HKDF) from SECRET_KEY; keys of SECRET_KEY_FALLBACKS still decrypt.
Nonces are random, which is safe for 2^32 texts per key: a million per second for an hour.
A text is bound to its table and column, but not to its row, and a text that was never encrypted is read unchanged, so
an attacker who can write to the database can replace texts. Encryption provides secrecy; the audit trail detects
changes.
"""

from __future__ import annotations

import binascii
import hmac
import os
import time
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from django.conf import settings
from django.db import models

from toolcards.core.redaction.redactor import Redactor

MARK = "sealed:1:"
_STAMP, _NONCE = 3, 12  # bytes: the hour since 1970, then the nonce, then the ciphertext with its tag
_HOUR = 3_600


class DecryptionError(ValueError):
    """No key of this server decrypts this, or it was changed."""


class UnreadableText(str):
    """A stored text that no key decrypts. It is not JSON, and is written back unchanged."""

    __slots__ = ()


def seal(texts: Iterable[str], place: str, head: str = "") -> list[str]:
    """Return the texts encrypted for that place, an empty text unchanged.

    Equal texts get different results. `head`: texts with this beginning keep it, and what follows up to the next quote,
    unencrypted.
    """
    originals = list(texts)
    hour = int(time.time()) // _HOUR
    stamp, encrypt = hour.to_bytes(_STAMP, "big"), _get_cipher(settings.SECRET_KEY, hour).encrypt
    fresh = os.urandom(_NONCE * len(originals))
    sealed_texts: list[str] = []
    for number, text in enumerate(originals):
        if not text or type(text) is UnreadableText:
            sealed_texts.append(text)
            continue
        clear = _split_clear_head(text, head) if head else ""
        nonce = fresh[number * _NONCE : (number + 1) * _NONCE]
        plain = (text[len(clear) :] if clear else text).encode("utf-8", "surrogatepass")
        raw = stamp + nonce + encrypt(nonce, plain, _build_associated_data(place, clear))
        sealed_texts.append(clear + MARK + binascii.b2a_base64(raw, newline=False).decode("ascii"))
    return sealed_texts


def open(text: str, place: str, head: str = "") -> str:  # noqa: A001 - the word for it
    """Return the decrypted text; raises DecryptionError.

    A text that was never encrypted is returned unchanged.
    """
    clear = _split_clear_head(text, head) if head else ""
    if not text.startswith(MARK, len(clear)):
        return text
    raw, associated_data = _decode(text[len(clear) + len(MARK) :]), _build_associated_data(place, clear)
    hour, nonce, body = raw[:_STAMP], raw[_STAMP : _STAMP + _NONCE], raw[_STAMP + _NONCE :]
    for secret in _list_secrets():
        try:
            cipher = _get_cipher(secret, int.from_bytes(hour, "big"))
            return clear + cipher.decrypt(nonce, body, associated_data).decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):
            continue
    raise DecryptionError("no key of this server decrypts this")


def open_all(texts: Iterable[str], place: str) -> list[str]:
    """Return many texts of a place, decrypted without a `head`.

    Undecryptable texts become `UnreadableText`. This is a third faster than one by one, since rows that were written
    together use the same key.
    """
    associated_data, start, results = _build_associated_data(place, ""), len(MARK), []
    hour, decrypt = b"", None
    for text in texts:
        try:
            if text.startswith(MARK):
                raw = binascii.a2b_base64(text[start:], strict_mode=True)
                if decrypt is None or raw[:_STAMP] != hour:
                    hour = raw[:_STAMP]
                    decrypt = _get_cipher(settings.SECRET_KEY, int.from_bytes(hour, "big")).decrypt
                plain = decrypt(raw[_STAMP : _STAMP + _NONCE], raw[_STAMP + _NONCE :], associated_data)
                text = plain.decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):  # an older key, or an unknown one
            try:
                text = open(text, place)
            except DecryptionError:
                text = UnreadableText(text)
        results.append(text)
    return results


def classify(text: str, place: str, head: str = "") -> str:
    """Return how a text is stored: `new`, `old`, `plain` or `closed`.

    `new`: encrypted with the current key, `old`: with an older one, `plain`: not encrypted, `closed`: undecryptable.
    """
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
    """A text column that is encrypted in the database; queries can only test whether it is empty.

    With a `head`, texts keep their beginning unencrypted (see `seal`), and queries can use it.
    """

    def __init__(self, *args: Any, head: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head = head

    @cached_property
    def place(self) -> str:
        """The table and column that a text is bound to."""
        return f"{self.model._meta.db_table}.{self.column}"

    def seal(self, texts: Iterable[str]) -> list[str]:
        """Return the texts encrypted, for writes without the ORM."""
        return seal(texts, self.place, self.head)

    def open(self, text: str) -> str:
        """Return a text of this column decrypted; raises DecryptionError."""
        return open(text, self.place, self.head)

    def open_all(self, texts: Iterable[str]) -> list[str]:
        """Return the texts of many rows decrypted, for reads without the ORM.

        Not for a column with a `head`.
        """
        return open_all(texts, self.place)

    def get_prep_value(self, value: Any) -> Any:
        """Encrypt the text to write."""
        prepared_value = value if type(value) is UnreadableText else super().get_prep_value(value)
        return self.seal([prepared_value])[0] if prepared_value else prepared_value

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Decrypt a text, or return it as `UnreadableText`."""
        try:
            return self.open(value) if value else value
        except DecryptionError:
            return UnreadableText(value)

    def get_lookup(self, lookup_name: str) -> Any:
        """Refuse lookups that would compare encrypted texts."""
        possible = {"exact", "isnull", "in", *(("startswith",) if self.head else ())}
        return super().get_lookup(lookup_name) if lookup_name in possible else None

    def deconstruct(self) -> Any:
        """Describe the column to migrations as a plain text column."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs


def _split_clear_head(text: str, head: str) -> str:
    """Return the beginning of the text that stays unencrypted."""
    return text[: text.find('"', len(head)) + 1] if text.startswith(head) else ""


@lru_cache(maxsize=1_024)
def _build_associated_data(place: str, clear: str) -> bytes:
    """Return the associated data: in another place, or with another beginning, a text cannot be decrypted."""
    return f"{MARK}{place}{clear}".encode()


def _decode(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise DecryptionError("this is incomplete") from None


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
    """Return a 32-byte key for one purpose: HMAC-SHA256 with the secret."""
    return hmac.digest(secret.encode(), f"toolcards.{purpose}".encode(), "sha256")


def get_redactor() -> Redactor:
    """Return the redactor with this server's key."""
    return _build_redactor(settings.SECRET_KEY)


@lru_cache(maxsize=2)
def _build_redactor(secret: str) -> Redactor:
    return Redactor(derive_key(secret, "redact"))
