"""Keeps originals that are not the log's, encrypted: what a person edited, what an idempotent request was answered.

AES-256-GCM under a key derived (HKDF) from SECRET_KEY; keys of SECRET_KEY_FALLBACKS still open what they sealed.
"""

from __future__ import annotations

import base64
import os
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import models

MARK = "sealed:1:"
_NONCE = 12


class CannotOpen(Exception):
    """None of our keys opens this, or it was changed."""


def seal(text: str) -> str:
    """Return the text encrypted; the same text never gives the same twice. Nothing stays nothing."""
    if not text or text.startswith(MARK):
        return text
    nonce = os.urandom(_NONCE)
    sealed = _keys()[0].encrypt(nonce, text.encode("utf-8", "surrogatepass"), MARK.encode())
    return MARK + base64.b64encode(nonce + sealed).decode()


def open(text: str) -> str:  # noqa: A001 - the word for it
    """Return what was sealed; a text that never was is itself. Raises CannotOpen."""
    if not text.startswith(MARK):
        return text
    try:
        raw = base64.b64decode(text[len(MARK) :], validate=True)
    except ValueError:
        raise CannotOpen("this is not whole") from None
    for key in _keys():
        try:
            return key.decrypt(raw[:_NONCE], raw[_NONCE:], MARK.encode()).decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):
            continue
    raise CannotOpen("no key of ours opens this")


class SealedText(models.TextField):
    """A text column that holds its text sealed. Not for searching; only "is it empty" can be asked."""

    def get_prep_value(self, value: Any) -> Any:
        """Seal what is written."""
        prepared = super().get_prep_value(value)
        return seal(prepared) if prepared else prepared

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Open what is read. What no key opens stays sealed: it is no JSON, so nobody can take it for an input."""
        try:
            return open(value) if value else value
        except CannotOpen:
            return value

    def deconstruct(self) -> Any:
        """For migrations it is a text like any other."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs


def _keys() -> tuple[AESGCM, ...]:
    return _derived((settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@lru_cache(maxsize=4)
def _derived(secrets: tuple[str, ...]) -> tuple[AESGCM, ...]:
    return tuple(
        AESGCM(HKDF(SHA256(), 32, salt=None, info=b"toolcards.vault").derive(secret.encode())) for secret in secrets
    )
