"""The rows of approvals, which follow the approvals and permits of the cards, and of the votes on them.

Reads and writes are SQL that is composed once, because every decision, poll, claim and vote needs some of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import connection

from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.calls.facts import Actor
from toolcards.encryption import SealedText, get_redactor
from toolcards.gate.writer.bulk_sql import clean_text, fit_text
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.models import Approval, Vote, prepared_selects
from toolcards.models.prepared_selects import PreparedSelect

_OF_SOURCE = "AND run_id IN (SELECT id FROM toolcards_run WHERE source_id = %s)"
_BY_ID = PreparedSelect(Approval, "WHERE id = %s", lock=True)
_BY_ID_OF_SOURCE = PreparedSelect(Approval, f"WHERE id = %s {_OF_SOURCE}", lock=True)
_BY_PERMIT_OF_SOURCE = PreparedSelect(Approval, f"WHERE permit = %s {_OF_SOURCE}", lock=True)
_NEWEST_OF_CALL = PreparedSelect(
    Approval,
    "WHERE call_id = (SELECT id FROM toolcards_toolcall WHERE run_id = %s AND ordinal = %s)"
    " ORDER BY requested_at DESC LIMIT 1",
)
_RUNS = "SELECT run_id FROM toolcards_approval WHERE id IN ({marks}) OR permit IN ({marks})"
_SELECT_ORDINAL = "SELECT ordinal FROM toolcards_toolcall WHERE id = %s"
_SELECT_CALL = "(SELECT id FROM toolcards_toolcall WHERE run_id = %s AND ordinal = %s)"
_PERMIT_STATES = {"issued": "approved", "void": "cancelled"}  # permit state -> row state


def find_runs(names: Iterable[str]) -> set[int]:
    """Return the runs of the approvals with these ids or permits."""
    valid_names = [name for name in names if name and "\0" not in name]
    if not valid_names:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_RUNS.format(marks=", ".join(["%s"] * len(valid_names))), [*valid_names, *valid_names])
        return {run for (run,) in cursor.fetchall()}


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
    ordinal = memory.ordinals.get(row.call_id)
    if ordinal is None:
        with connection.cursor() as cursor:
            cursor.execute(_SELECT_ORDINAL, [row.call_id])
            ordinal = memory.ordinals[row.call_id] = cursor.fetchone()[0]
    return memory.board.cards[ordinal]


def is_open_on(card: Card, row: Approval) -> bool:
    """Return whether the card is still waiting for this approval."""
    return card.unanswered and card.approval is not None and card.approval.id == row.id


class NewApproval(NamedTuple):
    """A row to insert: its id, the run and ordinal of its call, and the columns that differ from the defaults."""

    id: str
    run: int
    ordinal: int
    columns: dict[str, Any]


def insert_approvals(rows: list[NewApproval]) -> None:
    """Insert the rows, whose calls must be written.

    A row with an existing id gets the columns.
    """
    by_names: dict[tuple[str, ...], list[list[Any]]] = {}
    for row in rows:
        by_names.setdefault(tuple(row.columns), []).append(_list_values(row))
    with connection.cursor() as cursor:
        for names, values in by_names.items():
            cursor.executemany(_compose_insert(names), values)


def _list_values(row: NewApproval) -> list[Any]:
    """Return the parameters of the INSERT: of the call its run and ordinal, by which the database finds it."""
    values = prepare_values(_OTHER_FIELDS.values(), (_DEFAULTS | row.columns).values())
    return [row.id, row.run, row.run, row.ordinal, *values]


def update_approval(pk: str, **columns: Any) -> None:
    """Write these columns of the row."""
    values = prepare_values(map(_FIELDS.__getitem__, columns), columns.values())
    with connection.cursor() as cursor:
        cursor.execute(_compose_update(tuple(columns)), [*values, pk])


_FIELDS: dict[str, Any] = {field.attname: field for field in Approval._meta.concrete_fields}
_KEYS = ("id", "run_id", "call_id")
_OTHER_FIELDS = {name: field for name, field in _FIELDS.items() if name not in _KEYS}
_DEFAULTS = {name: field.get_default() for name, field in _OTHER_FIELDS.items()}
_PLAIN_VALUES = frozenset({str, int, float, bool, type(None)})


def prepare_values(fields: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Return the values of these fields as the database takes them.

    Skips Django's checks of plain values, which take longer than the statement.
    """
    return [
        value if type(value) in _PLAIN_VALUES and type(field) is not SealedText
        else field.get_db_prep_save(value, connection)
        for field, value in zip(fields, values, strict=True)
    ]  # fmt: skip


@lru_cache(maxsize=64)
def _compose_insert(names: tuple[str, ...]) -> str:
    updates = ", ".join(f"{name} = excluded.{name}" for name in ("run_id", "call_id", *names))
    marks = ["%s"] * len(_OTHER_FIELDS)
    return (
        f"INSERT INTO toolcards_approval ({', '.join([*_KEYS, *_OTHER_FIELDS])})"  # noqa: S608
        f" VALUES (%s, %s, {_SELECT_CALL}, {', '.join(marks)}) ON CONFLICT (id) DO UPDATE SET {updates}"
    )


@lru_cache(maxsize=64)
def _compose_update(names: tuple[str, ...]) -> str:
    return f"UPDATE toolcards_approval SET {', '.join(f'{name} = %s' for name in names)} WHERE id = %s"  # noqa: S608


def find_changed_cards(memory: RunMemory) -> list[Card]:
    """Return the cards whose approval differs from the stored one."""
    cards, asks = map(memory.board.cards.__getitem__, sorted(memory.dirty)), memory.asks
    return [card for card in cards if card.approval and asks.get(card.ordinal) is not card.approval]


def write_known_approval(memory: RunMemory, card: Card | None, extras: dict[str, dict[str, Any]]) -> bool:
    """Write the card's approval if its row exists and differs.

    Return whether it did. A row that a newer approval supersedes says so at once.
    """
    before = memory.asks.get(card.ordinal) if card else None
    if card is None or card.approval is None or before is None or before is card.approval:
        return False
    if before.id != card.approval.id:
        _supersede(before)
        return False
    write_approval(memory, card, extras, 0.0)
    return True


def write_approval(
    memory: RunMemory, card: Card, extras: dict[str, dict[str, Any]], clock_offset: float
) -> NewApproval | None:
    """Update the approval's row, or return the row to insert.

    A newer approval supersedes the older one of the same call.
    `extras`: approval id -> columns that are not in the card. `clock_offset`: see models.Approval.
    """
    ask, before = card.approval, memory.asks.get(card.ordinal)
    assert ask is not None
    is_new = before is None or before.id != ask.id
    if before is not None and is_new:
        _supersede(before)
    columns = extras.get(ask.id, {}) | _columns(ask)
    memory.asks[card.ordinal] = ask
    if not is_new:
        update_approval(ask.id, **columns)
        return None
    columns = {"channel": "none", "clock_offset": clock_offset} | columns
    fixed_columns = {"opener": ask.opener, "requested_at": ask.requested_at, "asked": not ask.automatic}
    return NewApproval(ask.id, memory.row.pk, card.ordinal, columns | fixed_columns)


def _supersede(ask: CardApproval) -> None:
    Approval.objects.filter(id=ask.id, state__in=("pending", "approved")).update(state="superseded")


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
        "args_sha256": ask.args_sha256, "twin": ask.twin,
    }  # fmt: skip


# ---------------------------------------------------------------- votes


_VOTE_FIELDS: dict[str, Any] = {field.attname: field for field in Vote._meta.concrete_fields if not field.primary_key}
_VOTE_COLUMNS = list(_VOTE_FIELDS)
_WRITE_VOTE = (
    f"INSERT INTO toolcards_vote ({', '.join(_VOTE_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_VOTE_COLUMNS))})"  # noqa: S608
    " ON CONFLICT (approval_id, person_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _VOTE_COLUMNS if name not in {"approval_id", "person_id"})
)
_SELECT_OWNER = "SELECT owner_id FROM toolcards_source WHERE id = (SELECT source_id FROM toolcards_run WHERE id = %s)"


def list_decisions(approval: str) -> dict[int, str]:
    """Return the votes on the approval, by the person's pk."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT person_id, decision FROM toolcards_vote WHERE approval_id = %s", [approval])
        return dict(cursor.fetchall())


def write_vote(**columns: Any) -> None:
    """Write the person's vote, in place of an earlier one.

    `columns`: all of the row but its key.
    """
    values = prepare_values(_VOTE_FIELDS.values(), map(columns.__getitem__, _VOTE_FIELDS))
    with connection.cursor() as cursor:
        cursor.execute(_WRITE_VOTE, values)


def delete_votes(approval: str) -> None:
    """Delete all votes on the approval."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM toolcards_vote WHERE approval_id = %s", [approval])


def get_owner(run: int) -> int | None:
    """Return the pk of the person that the run's agent serves.

    None without one.
    """
    return prepared_selects.recall((get_owner, run), lambda: _select_owner(run))


def _select_owner(run: int) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_OWNER, [run])
        row = cursor.fetchone()
    return row[0] if row else None
