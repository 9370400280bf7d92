"""Seals anew, under today's key, what is kept under older ones or in the clear: the other door to the log.

What is said stays the same. Each batch is a transaction of its own that replaces a text only if it is still the one
that was read; where it got to is noted in the data directory, so that whoever is interrupted goes on from there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connection

from toolcards import encryption
from toolcards.audit.trail import Act, key_id, write
from toolcards.encryption import SealedText
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models.write_guard import allow_event_changes

BATCH = 200  # texts that one transaction replaces
ProgressCallback = Callable[[str, Counter[str]], None]


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """A sealed column, as SQL names it."""

    table: str
    pk: str
    field: SealedText

    @property
    def name(self) -> str:
        """What people call it."""
        return self.field.place

    def read(self, after: Any, most: int) -> list[tuple[Any, str]]:
        """Return the next texts, as they are kept, in the order of their rows."""
        name = connection.ops.quote_name
        where, values = (f"{name(self.pk)} > %s AND ", [after]) if after is not None else ("", [])
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {name(self.pk)}, {name(self.field.column)} FROM {name(self.table)}"  # noqa: S608 - our names
                f" WHERE {where}{name(self.field.column)} <> '' ORDER BY {name(self.pk)} LIMIT %s",
                [*values, most],
            )
            return list(cursor.fetchall())


def list_columns() -> list[SealedColumn]:
    """Return every sealed column of the engine."""
    models = apps.get_app_config("toolcards").get_models()
    return [
        SealedColumn(model._meta.db_table, str(model._meta.pk.column), field)  # type: ignore[union-attr]
        for model in models
        for field in model._meta.fields
        if isinstance(field, SealedText)
    ]


def reseal(
    *, check: bool = False, batch: int = BATCH, watch: ProgressCallback = lambda name, seen: None
) -> Counter[str]:
    """Seal anew what is not sealed under today's key, or with `check` only look; return how many were kept how.

    `watch` is told after each batch how a column stands. What no key opens stays as it is (`closed`).
    """
    total: Counter[str] = Counter()
    place = {} if check else _read_progress()
    for column in list_columns():
        total += _reseal_column(column, place, check, batch, watch)
    if not check:
        _get_progress_file().unlink(missing_ok=True)
        if total["old"] or total["plain"]:
            write(Act("resealed", detail={"texts": dict(total), "key_id": key_id()}))
    return total


def _reseal_column(
    column: SealedColumn, place: dict[str, Any], check: bool, batch: int, watch: ProgressCallback
) -> Counter[str]:
    seen: Counter[str] = Counter()
    after = place.get(column.name)
    while rows := column.read(after, batch):
        how = {pk: encryption.kept(text, column.field.place, column.field.head) for pk, text in rows}
        seen.update(how.values())
        stale = [(pk, text) for pk, text in rows if how[pk] in {"old", "plain"}]
        if stale and not check:
            group_commit.execute(ReplaceTexts(column, stale))
        after = place[column.name] = rows[-1][0]
        if not check:
            _write_progress(place)
        watch(column.name, seen)
    return seen


class ReplaceTexts(Command):
    """Put newly sealed texts in place of those that were read; what somebody has written since stays."""

    def __init__(self, column: SealedColumn, rows: list[tuple[Any, str]]) -> None:
        super().__init__()
        self.column, self.rows = column, rows

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        field, name = self.column.field, connection.ops.quote_name
        sealed = field.seal(field.open(text) for _, text in self.rows)
        with allow_event_changes(), connection.cursor() as cursor:
            cursor.executemany(
                f"UPDATE {name(self.column.table)} SET {name(field.column)} = %s"  # noqa: S608 - our names
                f" WHERE {name(self.column.pk)} = %s AND {name(field.column)} = %s",
                [(new, pk, old) for (pk, old), new in zip(self.rows, sealed, strict=True)],
            )


# ---------------------------------------------------------------- where it got to


def _get_progress_file() -> Path:
    return Path(settings.TOOLCARDS.data_dir) / "reseal.json"


def _read_progress() -> dict[str, Any]:
    """Return the last row of each column that was done, where it was done under today's key."""
    try:
        said = json.loads(_get_progress_file().read_text())
        return dict(said["rows"]) if said["key_id"] == key_id() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write_progress(place: dict[str, Any]) -> None:
    draft = _get_progress_file().with_suffix(".new")
    draft.write_text(json.dumps({"key_id": key_id(), "rows": place}))
    draft.replace(_get_progress_file())
