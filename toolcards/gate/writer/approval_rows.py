"""The rows of approvals, which follow the approvals and permits of the cards.

Reads and writes are SQL that is composed once, because every decision, poll, claim and vote needs some of it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.db import connection

from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.calls.facts import Actor
from toolcards.encryption import SealedText, get_redactor
from toolcards.gate.writer.bulk_sql import clean_text, fit_text
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.models import Approval
from toolcards.models.prepared import PreparedSelect

_OF_SOURCE = "AND run_id IN (SELECT id FROM toolcards_run WHERE source_id = %s)"
_BY_ID = PreparedSelect(Approval, "WHERE id = %s", lock=True)
_BY_ID_OF_SOURCE = PreparedSelect(Approval, f"WHERE id = %s {_OF_SOURCE}", lock=True)
_BY_PERMIT_OF_SOURCE = PreparedSelect(Approval, f"WHERE permit = %s {_OF_SOURCE}", lock=True)
_NEWEST_OF_CALL = PreparedSelect(
    Approval,
    "WHERE call_id = (SELECT id FROM toolcards_toolcall WHERE run_id = %s AND ordinal = %s)"
    " ORDER BY requested_at DESC LIMIT 1",
)
_SELECT_ORDINAL = "SELECT ordinal FROM toolcards_toolcall WHERE id = %s"
_SELECT_CALL = "SELECT id FROM toolcards_toolcall WHERE run_id = %s AND ordinal = %s"
_PERMIT_STATES = {"issued": "approved", "void": "cancelled"}  # permit state -> row state


def load_approval(pk: str, source: int | None = None) -> Approval | None:
    """Return the locked row (of that source), or None."""
    if "\0" in pk:  # PostgreSQL accepts none
        return None
    return _BY_ID.fetch_first(pk) if source is None else _BY_ID_OF_SOURCE.fetch_first(pk, source)


def load_permit(permit: str, source: int) -> Approval | None:
    """Return the locked row with that permit, None without one."""
    return _BY_PERMIT_OF_SOURCE.fetch_first(permit, source) if permit and "\0" not in permit else None


def find_newest(run: int, ordinal: int) -> Approval | None:
    """Return the newest row of the call."""
    return _NEWEST_OF_CALL.fetch_first(run, ordinal)


def get_card(memory: RunMemory, row: Approval) -> Card:
    """Return the card of the row's call."""
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_ORDINAL, [row.call_id])
        return memory.board.cards[cursor.fetchone()[0]]


def insert_approval(pk: str, run: int, ordinal: int, columns: dict[str, Any]) -> Approval:
    """Insert the row; one with this id gets the columns."""
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_CALL, [run, ordinal])
        row = Approval(id=pk, run_id=run, call_id=cursor.fetchone()[0], **columns)
        values = [_prepare_value(field, getattr(row, name)) for name, field in _FIELDS.items()]
        cursor.execute(_compose_insert(("run_id", "call_id", *columns)), values)
    return row


def update_approval(pk: str, **columns: Any) -> None:
    """Write these columns of the row."""
    values = [_prepare_value(_FIELDS[name], value) for name, value in columns.items()]
    with connection.cursor() as cursor:
        cursor.execute(_compose_update(tuple(columns)), [*values, pk])


_FIELDS: dict[str, Any] = {field.attname: field for field in Approval._meta.concrete_fields}
_PLAIN_VALUES = frozenset({str, int, float, bool, type(None)})


def _prepare_value(field: Any, value: Any) -> Any:
    """Return the value as the database takes it. Django's fields take long to find that a text is a text."""
    if type(value) in _PLAIN_VALUES and type(field) is not SealedText:
        return value
    return field.get_db_prep_save(value, connection)


@lru_cache(maxsize=64)
def _compose_insert(names: tuple[str, ...]) -> str:
    updates = ", ".join(f"{name} = excluded.{name}" for name in names)
    return (
        f"INSERT INTO toolcards_approval ({', '.join(_FIELDS)}) VALUES ({', '.join(['%s'] * len(_FIELDS))})"  # noqa: S608
        f" ON CONFLICT (id) DO UPDATE SET {updates}"
    )


@lru_cache(maxsize=64)
def _compose_update(names: tuple[str, ...]) -> str:
    return f"UPDATE toolcards_approval SET {', '.join(f'{name} = %s' for name in names)} WHERE id = %s"  # noqa: S608


def find_changed_cards(memory: RunMemory) -> list[Card]:
    """Return the cards whose approval differs from the stored one."""
    cards = (memory.board.cards[ordinal] for ordinal in sorted(memory.dirty))
    return [card for card in cards if card.approval and memory.asks.get(card.ordinal) is not card.approval]


def write_approval(memory: RunMemory, card: Card, extras: dict[str, dict[str, Any]], clock_offset: float) -> None:
    """Write the card's approval.

    A newer approval supersedes the older one of the same call.
    `extras`: approval id -> columns that are not in the card. `clock_offset`: see models.Approval.
    """
    ask, before = card.approval, memory.asks.get(card.ordinal)
    assert ask is not None
    is_new = before is None or before.id != ask.id
    if before is not None and is_new:
        Approval.objects.filter(id=before.id, state__in=("pending", "approved")).update(state="superseded")
    columns = extras.get(ask.id, {}) | _columns(ask)
    if is_new:
        _create(memory, card, ask, {"channel": "none", "clock_offset": clock_offset} | columns)
    else:
        update_approval(ask.id, **columns)
    memory.asks[card.ordinal] = ask


def get_row_state(state: str) -> str:
    """Return the row state for a state of a rule's permit."""
    return _PERMIT_STATES.get(state, state)


def write_permit_states(states: dict[str, str]) -> None:
    """Write the new states of rules' permits, given by approval id."""
    for pk, state in states.items():
        update_approval(pk, state=get_row_state(state))


def _columns(ask: CardApproval) -> dict[str, Any]:
    actor = ask.by or Actor("")
    return {
        "state": ask.state, "by_kind": actor.kind, "by_name": fit_text(actor.name, 200), "decided_at": ask.decided_at,
        "reason": clean_text(get_redactor().text(ask.reason)), "expires_at": ask.expires_at,
        "args_sha256": ask.args_sha256,
    }  # fmt: skip


def _create(memory: RunMemory, card: Card, ask: CardApproval, columns: dict[str, Any]) -> None:
    fixed_columns = {"opener": ask.opener, "requested_at": ask.requested_at, "asked": not ask.automatic}
    insert_approval(ask.id, memory.row.pk, card.ordinal, columns | fixed_columns)
