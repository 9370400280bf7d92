"""The tables of the audit trail, and the hash that chains its rows.

Each row's hash covers its number, the previous hash and its content, with a key that is not in the database. This
reveals a row that was changed, moved or removed. `trail.py` appends rows.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import models

from toolcards import encryption
from toolcards.audit.anchor_line import GENESIS
from toolcards.client.common.canonical_json import canonicalize
from toolcards.encryption import derive_key


class TrailIsFinal(Exception):
    """The audit trail is append-only."""


class AuditQuerySet(models.QuerySet["AuditRow"]):
    """Rows of the trail, which can only be read and appended."""

    def update(self, **kwargs: Any) -> int:
        """Refuse."""
        raise TrailIsFinal("audit rows are never changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        """Refuse."""
        raise TrailIsFinal("audit rows are never deleted")


class AuditRow(models.Model):
    """One act. `at` is milliseconds since 1970, an integer with one spelling; `key` names the key of its hash."""

    seq = models.BigIntegerField(primary_key=True)
    at = models.BigIntegerField(db_index=True)
    act = models.CharField(max_length=40, db_index=True)
    actor_kind = models.CharField(max_length=20, blank=True)
    actor = models.CharField(max_length=200, blank=True, db_index=True)
    run = models.CharField(max_length=200, blank=True, db_index=True)
    call = models.CharField(max_length=40, blank=True, db_index=True)
    approval = models.CharField(max_length=40, blank=True, db_index=True)
    detail = models.TextField(default="{}")
    key = models.CharField(max_length=8)
    prev = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)
    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ["seq"]
        permissions = [("reveal", "Can see values that are masked")]

    def __str__(self) -> str:
        return f"{self.seq} {self.act}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Refuse: `trail.py` appends rows."""
        raise TrailIsFinal("audit rows are appended, not saved")

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Refuse."""
        raise TrailIsFinal("audit rows are never deleted")

    @property
    def when(self) -> float:
        """When it happened, in epoch seconds."""
        return self.at / 1000

    @property
    def content(self) -> dict[str, Any]:
        """The columns that are hashed and exported."""
        return {name: getattr(self, name) for name in HASHED_COLUMNS}

    @property
    def details(self) -> dict[str, Any]:
        """The details of the act.

        `{"unreadable": text}` if the column is no JSON object, which `audit verify` reports.
        """
        try:
            details = json.loads(self.detail)
        except (ValueError, RecursionError):
            details = None
        return details if isinstance(details, dict) else {"unreadable": self.detail}

    @property
    def readable(self) -> dict[str, Any]:
        """The details decrypted, for people who may read the trail."""
        return {name: _unseal(value) for name, value in self.details.items()}


class AuditHead(models.Model):
    """The end of the chain: one row, which is locked while rows are appended."""

    seq = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=GENESIS)

    def __str__(self) -> str:
        return f"{self.seq} {self.hash[:8]}"


SEALED_PLACE = "toolcards_auditrow.words"  # the place that texts in details are encrypted for
HASHED_COLUMNS = ("seq", "at", "act", "actor_kind", "actor", "run", "call", "approval", "detail")


def _unseal(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(encryption.MARK):
        return value
    try:
        return encryption.open(value, SEALED_PLACE)
    except encryption.DecryptionError:
        return "(cannot be decrypted: the encryption key is missing)"


def hash_row(row: dict[str, Any], prev: str, key: str) -> str:
    """Return the HMAC over number, previous hash and row; raises KeyError."""
    content = f"{row['seq']}|{prev}|".encode() + canonicalize(row)
    return hmac.digest(_get_keys()[key], content, "sha256").hex()


def get_key_id() -> str:
    """Return the name of the current key."""
    return next(iter(_get_keys()))


def list_key_ids() -> set[str]:
    """Return the names of all keys that this server has."""
    return set(_get_keys())


def is_of_unknown_key() -> bool:
    """Return whether this server has no key of the last row."""
    last = AuditRow.objects.order_by("-seq").values_list("key", flat=True).first()
    return last is not None and last not in _get_keys()


def _get_keys() -> dict[str, bytes]:
    return _build_keys(settings.SECRET_KEY, tuple(settings.SECRET_KEY_FALLBACKS))


# Rows written since anchors are signed use other keys, so an unsigned anchor never covers them.
_PURPOSE, _FIRST_PURPOSE = "audit.2", "audit"


def is_of_first_version() -> bool:
    """Return whether the last row was written before anchors were signed."""
    last = AuditRow.objects.order_by("-seq").values_list("key", flat=True).first()
    older = _derive_keys((settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS), _FIRST_PURPOSE)
    return last in older


@lru_cache(maxsize=4)
def _build_keys(secret: str, older: tuple[str, ...]) -> dict[str, bytes]:
    return _derive_keys((secret, *older), _PURPOSE) | _derive_keys((secret, *older), _FIRST_PURPOSE)


def _derive_keys(secrets: tuple[str, ...], purpose: str) -> dict[str, bytes]:
    keys = [derive_key(secret, purpose) for secret in secrets]
    return {hashlib.sha256(key).hexdigest()[:8]: key for key in keys}
