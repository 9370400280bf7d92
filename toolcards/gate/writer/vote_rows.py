"""The rows of votes, read and written with SQL that is composed once."""

from __future__ import annotations

from typing import Any

from django.db import connection

from toolcards.gate.writer import memo
from toolcards.gate.writer.approval_rows import prepare_value
from toolcards.models import Vote

_FIELDS: dict[str, Any] = {field.attname: field for field in Vote._meta.concrete_fields if not field.primary_key}
_COLUMNS = list(_FIELDS)
_WRITE = (
    f"INSERT INTO toolcards_vote ({', '.join(_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_COLUMNS))})"  # noqa: S608
    " ON CONFLICT (approval_id, person_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in {"approval_id", "person_id"})
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
    values = [prepare_value(field, columns[name]) for name, field in _FIELDS.items()]
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, values)


def delete_votes(approval: str) -> None:
    """Delete all votes on the approval."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM toolcards_vote WHERE approval_id = %s", [approval])


def get_owner(run: int) -> int | None:
    """Return the pk of the person that the run's agent serves.

    None without one.
    """
    return memo.recall((get_owner, run), lambda: _select_owner(run))


def _select_owner(run: int) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_OWNER, [run])
        row = cursor.fetchone()
    return row[0] if row else None
