"""Encrypt stored texts with the current key, if they use an older key or none.

The content does not change. Each batch is a transaction of its own and replaces a text only if it is still the one that
was read. Progress is stored in the data directory, so an interrupted run continues where it stopped.
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
from toolcards.audit.rows import get_key_id
from toolcards.audit.trail import Act, write_acts
from toolcards.encryption import SealedText
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models.write_guard import allow_event_changes

BATCH = 200  # texts that one transaction replaces
ProgressCallback = Callable[[str, Counter[str]], None]


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """An encrypted column with its SQL names."""

    table: str
    pk: str
    field: SealedText

    @property
    def name(self) -> str:
        """The name for people."""
        return self.field.place

    def read(self, after: Any, most: int) -> list[tuple[Any, str]]:
        """Return the next rows (key, stored text), ordered by key."""
        name, column = connection.ops.quote_name, str(self.field.column)
        where, values = (f"{name(self.pk)} > %s AND ", [after]) if after is not None else ("", [])
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {name(self.pk)}, {name(column)} FROM {name(self.table)}"  # noqa: S608 - our names
                f" WHERE {where}{name(column)} <> '' ORDER BY {name(self.pk)} LIMIT %s",
                [*values, most],
            )
            return list(cursor.fetchall())


def list_columns() -> list[SealedColumn]:
    """Return all encrypted columns."""
    models = apps.get_app_config("toolcards").get_models()
    return [
        SealedColumn(model._meta.db_table, str(model._meta.pk.column), field)
        for model in models
        for field in model._meta.fields
        if isinstance(field, SealedText)
    ]


def reseal(
    *, check: bool = False, batch: int = BATCH, watch: ProgressCallback = lambda name, counts: None
) -> Counter[str]:
    """Encrypt texts with the current key; return numbers per status.

    `check`: only count. `watch` is called after each batch with the counts of a column. Texts that no key decrypts are
    unchanged (`closed`).
    """
    total: Counter[str] = Counter()
    place = {} if check else _read_progress()
    for column in list_columns():
        total += _reseal_column(column, place, check, batch, watch)
    if not check:
        _get_progress_file().unlink(missing_ok=True)
        if total["old"] or total["plain"]:
            write_acts(Act("resealed", detail={"texts": dict(total), "key_id": get_key_id()}))
    return total


def _reseal_column(
    column: SealedColumn, place: dict[str, Any], check: bool, batch: int, watch: ProgressCallback
) -> Counter[str]:
    counts: Counter[str] = Counter()
    after = place.get(column.name)
    while rows := column.read(after, batch):
        how = {pk: encryption.classify(text, column.field.place, column.field.head) for pk, text in rows}
        counts.update(how.values())
        stale = [(pk, text) for pk, text in rows if how[pk] in {"old", "plain"}]
        if stale and not check:
            group_commit.execute(ReplaceTexts(column, stale))
        after = place[column.name] = rows[-1][0]
        if not check:
            _write_progress(place)
        watch(column.name, counts)
    return counts


class ReplaceTexts(Command):
    """Replace texts by newly encrypted ones, unless they have changed since they were read."""

    def __init__(self, column: SealedColumn, rows: list[tuple[Any, str]]) -> None:
        super().__init__()
        self.column, self.rows = column, rows

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        field, name = self.column.field, connection.ops.quote_name
        column = str(field.column)
        sealed_texts = field.seal(field.open(text) for _, text in self.rows)
        with allow_event_changes(), connection.cursor() as cursor:
            cursor.executemany(
                f"UPDATE {name(self.column.table)} SET {name(column)} = %s"  # noqa: S608 - our names
                f" WHERE {name(self.column.pk)} = %s AND {name(column)} = %s",
                [(new, pk, old) for (pk, old), new in zip(self.rows, sealed_texts, strict=True)],
            )


# ---------------------------------------------------------------- progress


def _get_progress_file() -> Path:
    return Path(settings.TOOLCARDS.data_dir) / "reseal.json"


def _read_progress() -> dict[str, Any]:
    """Return the last finished row of each column, if the progress belongs to the current key."""
    try:
        progress = json.loads(_get_progress_file().read_text())
        return dict(progress["rows"]) if progress["key_id"] == get_key_id() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write_progress(place: dict[str, Any]) -> None:
    draft = _get_progress_file().with_suffix(".new")
    draft.write_text(json.dumps({"key_id": get_key_id(), "rows": place}))
    draft.replace(_get_progress_file())
