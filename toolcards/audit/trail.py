"""The audit trail: one hash-chained, append-only row for every act of consequence.

Each row's hash covers its number, the previous hash and its content, with a key that is not in the database. This
reveals a row that was changed, moved or removed. The signed anchor, a file next to the database, reveals that the last
rows are missing (see `toolcards.audit.anchor`). Rows are written in the transaction of the act.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import connection, models, transaction

from toolcards import encryption
from toolcards.audit import anchor
from toolcards.audit.anchor import GENESIS
from toolcards.client.common.canonical_json import canonicalize
from toolcards.encryption import derive_key, get_redactor


@dataclass(frozen=True, slots=True)
class Act:
    """An act: its actor, its object, and details, which are redacted on writing. `at` is epoch seconds."""

    act: str
    kind: str = ""  # human, rule, default, timeout, grant, kill_switch, agent, host, command, …
    name: str = ""
    run: str = ""
    call: str = ""  # ToolCall.public_id
    approval: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0


# The actor of acts that name none: the site sets it for each request.
ACTOR: ContextVar[Callable[[], tuple[str, str]]] = ContextVar("actor", default=lambda: ("command", ""))


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

    def append(self, acts: Iterable[Act]) -> tuple[int, str]:
        """Append the acts in the open transaction; return the new end."""
        with connection.cursor() as cursor:
            seq, prev = _lock_head(cursor)
            anchor.prepare(seq)
            rows = []
            for act in acts:
                seq += 1
                row = _build_row(act, seq)
                previous_hash, prev = prev, hash_row(row, prev, get_key_id())
                rows.append((*(row[name] for name in _HASHED_COLUMNS), get_key_id(), previous_hash, prev))
            cursor.executemany(_INSERT, rows)
            cursor.execute("UPDATE toolcards_audithead SET seq = %s, hash = %s WHERE id = 1", [seq, prev])
        return seq, prev


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
        """Refuse: rows are appended by `AuditRow.objects.append`."""
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
        return {name: getattr(self, name) for name in _HASHED_COLUMNS}

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


_SEALED_PLACE = "toolcards_auditrow.words"  # the place that texts in details are encrypted for
_HASHED_COLUMNS = ("seq", "at", "act", "actor_kind", "actor", "run", "call", "approval", "detail")
_encode_detail = json.JSONEncoder(separators=(",", ":"), sort_keys=True, default=str).encode
_SELECT_HEAD = "SELECT seq, hash FROM toolcards_audithead WHERE id = 1"
_COLUMNS = (*_HASHED_COLUMNS, "key", "prev", "hash")
_INSERT = (
    f"INSERT INTO toolcards_auditrow ({', '.join(_COLUMNS)}) "  # noqa: S608 - names of ours
    f"VALUES ({', '.join(['%s'] * len(_COLUMNS))})"
)


def seal_words(text: str) -> str:
    """Return a person's text masked and encrypted, for the details.

    It is exported encrypted.
    """
    return encryption.seal([get_redactor().text(text)], _SEALED_PLACE)[0]


def _unseal(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(encryption.MARK):
        return value
    try:
        return encryption.open(value, _SEALED_PLACE)
    except encryption.DecryptionError:
        return "(cannot be opened: the key that sealed it is not here)"


def write_acts(*acts: Act) -> None:
    """Append the acts, in the open transaction if there is one."""
    if not acts:
        return
    with transaction.atomic():
        end = AuditRow.objects.append(acts)
        transaction.on_commit(lambda: anchor.note_end(*end), robust=True)


def repair_head() -> int:
    """Set the head to the last row; return its number."""
    with connection.cursor() as cursor:
        _lock_head(cursor)
        end = AuditRow.objects.order_by("-seq").values_list("seq", "hash").first() or (0, GENESIS)
        cursor.execute("UPDATE toolcards_audithead SET seq = %s, hash = %s WHERE id = 1", end)
    return end[0]


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


def _lock_head(cursor: Any) -> tuple[int, str]:
    lock = " FOR UPDATE" if connection.features.has_select_for_update else ""
    cursor.execute(_SELECT_HEAD + lock)
    head = cursor.fetchone()
    if head is None:  # the first row; of two concurrent transactions one creates it, and both lock it
        last = AuditRow.objects.order_by("-seq").values_list("seq", "hash").first() or (0, GENESIS)
        cursor.execute(
            "INSERT INTO toolcards_audithead (id, seq, hash) VALUES (1, %s, %s) ON CONFLICT (id) DO NOTHING", last
        )
        cursor.execute(_SELECT_HEAD + lock)
        head = cursor.fetchone()
    return head[0], head[1]


def _build_row(act: Act, seq: int) -> dict[str, Any]:
    hide = get_redactor()
    kind, name = (act.kind, act.name) if act.kind else ACTOR.get()()
    detail = _encode_detail(hide.value(act.detail))
    return {
        "seq": seq,
        "at": round((act.at or time.time()) * 1000),
        "act": act.act[:40],
        "actor_kind": kind[:20],
        "actor": _clean(hide.text(name), 200),
        "run": _clean(act.run, 200),
        "call": act.call[:40],
        "approval": act.approval[:40],
        "detail": detail,
    }


def _clean(text: str, size: int) -> str:
    if text.isascii() and "\0" not in text:
        return text[:size]
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")[:size]


__all__ = [
    "ACTOR",
    "GENESIS",
    "Act",
    "AuditHead",
    "AuditQuerySet",
    "AuditRow",
    "TrailIsFinal",
    "get_key_id",
    "hash_row",
    "is_of_first_version",
    "list_key_ids",
    "repair_head",
    "seal_words",
    "write_acts",
]
