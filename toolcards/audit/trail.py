"""The audit trail: one hash-chained, append-only row for every act of consequence.

Rows are written in the transaction of the act, after the last row (`rows.py` has the tables). The signed anchor, a file
next to the database, reveals that the last rows are missing (see `anchor.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from django.db import connection, transaction

from toolcards import encryption
from toolcards.audit import anchor
from toolcards.audit.anchor_line import GENESIS
from toolcards.audit.rows import HASHED_COLUMNS, SEALED_PLACE, AuditRow, get_key_id, hash_row
from toolcards.encryption import get_redactor

_encode_detail = json.JSONEncoder(separators=(",", ":"), sort_keys=True, default=str).encode
_SELECT_HEAD = "SELECT seq, hash FROM toolcards_audithead WHERE id = 1"
_COLUMNS = (*HASHED_COLUMNS, "key", "prev", "hash")
_get_hashed_values = itemgetter(*HASHED_COLUMNS)
_INSERT = (
    f"INSERT INTO toolcards_auditrow ({', '.join(_COLUMNS)}) "  # noqa: S608 - names of ours
    f"VALUES ({', '.join(['%s'] * len(_COLUMNS))})"
)


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


_held_acts: ContextVar[list[Act] | None] = ContextVar("held_acts", default=None)


@contextmanager
def hold_acts(acts: list[Act]) -> Iterator[None]:
    """Let `write_acts` add to this list, which the caller appends last.

    Appending locks the end of the trail, so it must be the last lock of a transaction.
    """
    token = _held_acts.set(acts)
    try:
        yield
    finally:
        _held_acts.reset(token)


def write_acts(*acts: Act) -> None:
    """Append the acts, in the open transaction if there is one.

    Within `hold_acts` they are appended at its end.
    """
    if not acts:
        return
    acts_to_append = _held_acts.get()
    if acts_to_append is not None:
        acts_to_append += acts
        return
    with transaction.atomic():
        append_acts(acts)


def append_acts(acts: Iterable[Act]) -> None:
    """Append the acts in the open transaction."""
    with connection.cursor() as cursor:
        seq, prev = _lock_head(cursor)
        anchor.prepare(seq)
        rows, key = [], get_key_id()
        for act in acts:
            seq += 1
            row = _build_row(act, seq)
            previous_hash, prev = prev, hash_row(row, prev, key)
            rows.append((*_get_hashed_values(row), key, previous_hash, prev))
        cursor.executemany(_INSERT, rows)
        cursor.execute("UPDATE toolcards_audithead SET seq = %s, hash = %s WHERE id = 1", [seq, prev])
    transaction.on_commit(lambda: anchor.note_end(seq, prev), robust=True)


def repair_head() -> int:
    """Set the head to the last row; return its number."""
    with connection.cursor() as cursor:
        _lock_head(cursor)
        end = AuditRow.objects.order_by("-seq").values_list("seq", "hash").first() or (0, GENESIS)
        cursor.execute("UPDATE toolcards_audithead SET seq = %s, hash = %s WHERE id = 1", end)
    return end[0]


def seal_words(text: str) -> str:
    """Return a person's text masked and encrypted, for the details.

    It is exported encrypted.
    """
    return encryption.seal([get_redactor().text(text)], SEALED_PLACE)[0]


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
