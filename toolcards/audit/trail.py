"""The audit trail: one hash-chained, append-only row for every act that somebody may have to answer for.

Each row's hash covers its number, the hash before it and all it says, keyed with a key that is not in the
database; so a row that was changed, moved or removed shows. The signed anchor, a file beside the database, shows
that the last rows are missing (see `toolcards.audit.anchor`). Rows are written in the transaction of the act.
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
    """Something done: by whom, to what; `detail` is redacted before it is written. `at` is epoch seconds."""

    act: str
    kind: str = ""  # human, rule, default, timeout, grant, kill_switch, agent, host, command, …
    name: str = ""
    run: str = ""
    call: str = ""  # ToolCall.public_id
    approval: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0


# Who is at work here, for acts that do not say so: the site sets it for each request.
ACTOR: ContextVar[Callable[[], tuple[str, str]]] = ContextVar("actor", default=lambda: ("command", ""))


class TrailIsFinal(Exception):
    """The audit trail is append-only."""


class AuditQuerySet(models.QuerySet["AuditRow"]):
    """Rows of the trail; they are read and appended, nothing else."""

    def update(self, **kwargs: Any) -> int:
        """Refuse."""
        raise TrailIsFinal("audit rows are never changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        """Refuse."""
        raise TrailIsFinal("audit rows are never deleted")

    def append(self, acts: Iterable[Act]) -> tuple[int, str]:
        """Write the acts at the end of the chain, in the transaction that is open; return the new end."""
        with connection.cursor() as cursor:
            seq, prev = _lock_head(cursor)
            anchor.prepare(seq)
            rows = []
            for act in acts:
                seq += 1
                row = _build_row(act, seq)
                prev_before, prev = prev, hash_row(row, prev, get_key_id())
                rows.append((*(row[name] for name in _HASHED_COLUMNS), get_key_id(), prev_before, prev))
            cursor.executemany(_INSERT, rows)
            cursor.execute("UPDATE toolcards_audithead SET seq = %s, hash = %s WHERE id = 1", [seq, prev])
        return seq, prev


class AuditRow(models.Model):
    """One act. `at` is milliseconds since 1970, so that it has one spelling; `key` names the key that signed it."""

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
    def said(self) -> dict[str, Any]:
        """The row without its place in the chain, as it is hashed and exported."""
        return {name: getattr(self, name) for name in _HASHED_COLUMNS}

    @property
    def details(self) -> dict[str, Any]:
        """What is known beside the columns; a text that is no object stands for itself, and `audit verify` names it."""
        try:
            known = json.loads(self.detail)
        except (ValueError, RecursionError):
            known = None
        return known if isinstance(known, dict) else {"unreadable": self.detail}

    @property
    def readable(self) -> dict[str, Any]:
        """The details with sealed words opened, for people who may read the trail."""
        return {name: _unseal(value) for name, value in self.details.items()}


class AuditHead(models.Model):
    """The end of the chain; there is one row, and whoever appends holds its lock."""

    seq = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=GENESIS)

    def __str__(self) -> str:
        return f"{self.seq} {self.hash[:8]}"


_SEALED_PLACE = "toolcards_auditrow.words"  # the place that words in details are sealed for
_HASHED_COLUMNS = ("seq", "at", "act", "actor_kind", "actor", "run", "call", "approval", "detail")
_SELECT_HEAD = "SELECT seq, hash FROM toolcards_audithead WHERE id = 1"
_COLUMNS = (*_HASHED_COLUMNS, "key", "prev", "hash")
_INSERT = (
    f"INSERT INTO toolcards_auditrow ({', '.join(_COLUMNS)}) "  # noqa: S608 - names of ours
    f"VALUES ({', '.join(['%s'] * len(_COLUMNS))})"
)


def seal_words(text: str) -> str:
    """Return what a person wrote for other people as a row keeps it: masked, then sealed; it is exported sealed."""
    return encryption.seal([get_redactor().text(text)], _SEALED_PLACE)[0]


def _unseal(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(encryption.MARK):
        return value
    try:
        return encryption.open(value, _SEALED_PLACE)
    except encryption.DecryptionError:
        return "(cannot be opened: the key that sealed it is not here)"


def write_acts(*acts: Act) -> None:
    """Append the acts to the trail: with the open transaction, or in one of their own."""
    if not acts:
        return
    with transaction.atomic():
        end = AuditRow.objects.append(acts)
        transaction.on_commit(lambda: anchor.note_end(*end), robust=True)


def repair_head() -> int:
    """Make the head name the last row there is, whose number is returned; in the transaction that is open."""
    with connection.cursor() as cursor:
        _lock_head(cursor)
        end = AuditRow.objects.order_by("-seq").values_list("seq", "hash").first() or (0, GENESIS)
        cursor.execute("UPDATE toolcards_audithead SET seq = %s, hash = %s WHERE id = 1", end)
    return end[0]


def hash_row(row: dict[str, Any], prev: str, key: str) -> str:
    """Return the HMAC over number, the hash before, and the row; raises KeyError for a key we do not have."""
    said = f"{row['seq']}|{prev}|".encode() + canonicalize(row)
    return hmac.digest(_get_keys()[key], said, "sha256").hex()


def get_key_id() -> str:
    """Return the name of the key that signs today."""
    return next(iter(_get_keys()))


def list_key_ids() -> set[str]:
    """Return the names of the keys that can verify here."""
    return set(_get_keys())


def _get_keys() -> dict[str, bytes]:
    return _build_keys(settings.SECRET_KEY, tuple(settings.SECRET_KEY_FALLBACKS))


# Rows written since anchors are signed have keys of their own, so that nothing unsigned counts beside them.
_PURPOSE, _FIRST_PURPOSE = "audit.2", "audit"


def is_of_first_version() -> bool:
    """Return whether the trail's last row is of the time before anchors were signed."""
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
    if head is None:  # the very first row; of two who come at once, one makes it and both lock it
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
    detail = json.dumps(hide.value(act.detail), separators=(",", ":"), sort_keys=True, default=str)
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
