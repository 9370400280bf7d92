"""What hides secrets here: the core's redactor with this server's own key."""

from __future__ import annotations

import hmac
from functools import lru_cache

from django.conf import settings

from toolcards.core.redaction.redactor import Redactor


def redactor() -> Redactor:
    """Return what hides secrets, with this server's key."""
    return _redactor(settings.SECRET_KEY)


def derived(secret: str, purpose: str) -> bytes:
    """Return a key for one purpose only."""
    return hmac.digest(secret.encode(), f"toolcards.{purpose}".encode(), "sha256")


@lru_cache(maxsize=2)
def _redactor(secret: str) -> Redactor:
    return Redactor(derived(secret, "redact"))
