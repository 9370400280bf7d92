"""Guards of the log's tables: only the writer of the gate writes them, and events never change.

Each transaction of the gate enters `allow_log_writes`. `allow_event_changes` is for retention and rekeying; triggers of
both databases check it, so that nothing else changes or deletes an event.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from django.db import connection, models

_log_writes: ContextVar[bool] = ContextVar("log_writes", default=False)
_event_changes: ContextVar[bool] = ContextVar("event_changes", default=False)
SETTING = "toolcards.event_changes"  # PostgreSQL: its value in a transaction
FUNCTION = "toolcards_event_changes"  # SQLite: returns 1 or 0; a connection of another program does not have it


class WriteRefused(Exception):
    """A row of the log was written outside of the gate's writer."""


@contextlib.contextmanager
def allow_log_writes() -> Iterator[None]:
    """Allow this thread or task to write runs, events, calls and approvals."""
    token = _log_writes.set(True)
    try:
        yield
    finally:
        _log_writes.reset(token)


@contextlib.contextmanager
def allow_event_changes() -> Iterator[None]:
    """Allow this thread's transaction to change events; use it inside `atomic`."""
    token = _event_changes.set(True)
    _write_setting("on")
    try:
        yield
    finally:
        _event_changes.reset(token)
    _write_setting("off")  # after an error the rollback resets it


def _write_setting(value: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config(%s, %s, true)", [SETTING, value])


def prepare_connection(sender: Any, connection: Any, **kwargs: Any) -> None:
    """Define the function that the triggers call in a new SQLite connection.

    A receiver of `connection_created`.
    """
    if connection.vendor == "sqlite":
        connection.connection.create_function(FUNCTION, 0, lambda: int(_event_changes.get()))
        connection.connection.execute("PRAGMA recursive_triggers = ON")  # otherwise REPLACE deletes without the trigger


def _require_log_writes(model: type[models.Model]) -> None:
    if not _log_writes.get():
        raise WriteRefused(f"{model._meta.label} is written by toolcards.gate only")


Row = TypeVar("Row", bound=models.Model)


class LogQuerySet(models.QuerySet[Row]):
    """Rows that only the writer writes."""

    def bulk_create(self, *args: Any, **kwargs: Any) -> list[Row]:
        """See Django; raises WriteRefused outside of the writer."""
        _require_log_writes(self.model)
        return super().bulk_create(*args, **kwargs)

    def update(self, **kwargs: Any) -> int:
        """See Django; raises WriteRefused outside of the writer."""
        _require_log_writes(self.model)
        return super().update(**kwargs)

    def delete(self) -> tuple[int, dict[str, int]]:
        """See Django; raises WriteRefused outside of the writer."""
        _require_log_writes(self.model)
        return super().delete()

    def _raw_delete(self, using: str | None) -> int:
        _require_log_writes(self.model)
        return super()._raw_delete(using)


class LogModel(models.Model):
    """A row that only the writer writes."""

    class Meta:
        abstract = True

    def save_base(self, *args: Any, **kwargs: Any) -> None:
        """See Django; raises WriteRefused outside of the writer.

        `save`, `create` and fixtures call this.
        """
        _require_log_writes(type(self))
        super().save_base(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """See Django; raises WriteRefused outside of the writer."""
        _require_log_writes(type(self))
        return super().delete(*args, **kwargs)
