"""Reads of whole rows whose SQL is composed once. Django composes it for every query, which takes most of its time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from django.db import connection, models

# Values that the writer has read in the open transaction, so that the calls of one commit read them once.
#
# Each thread has its own memo, which a transaction starts empty.
T = TypeVar("T")
_thread = threading.local()


@contextmanager
def open_memo() -> Iterator[None]:
    """Cache reads in the block."""
    before = getattr(_thread, "memo", None)
    _thread.memo = {}
    try:
        yield
    finally:
        _thread.memo = before


def recall(key: Any, load: Callable[[], T]) -> T:
    """Return what `load` returned in this transaction under the key.

    Outside of one, call it each time.
    """
    memo: dict[Any, T] | None = getattr(_thread, "memo", None)
    if memo is None:
        return load()
    if key not in memo:
        memo[key] = load()
    return memo[key]


def forget() -> None:
    """Clear the memo, because the transaction has changed a cached value."""
    memo = getattr(_thread, "memo", None)
    if memo is not None:
        memo.clear()


Row = TypeVar("Row", bound=models.Model)


class _Plan(NamedTuple):
    """The SQL of a statement for one database, the attributes of its columns, and how to convert some of them."""

    sql: str
    attributes: list[str]
    converters: list[tuple[int, Any, list[Callable[[Any, Any, Any], Any]]]]


class PreparedSelect(Generic[Row]):
    """A SELECT of a model's rows.

    `condition`: SQL from WHERE on, with %s for parameters, which must be strings, numbers or None. `lock`: lock the
    rows until the end of the transaction, where the database can.
    """

    def __init__(self, model: type[Row], condition: str, *, lock: bool = False) -> None:
        self._model, self._condition, self._lock = model, condition, lock
        self._plans: dict[str, _Plan] = {}

    def fetch_all(self, *parameters: Any) -> list[Row]:
        """Return the rows."""
        plan = self._plans.get(connection.vendor) or self._compose()
        with connection.cursor() as cursor:
            cursor.execute(plan.sql, parameters)
            rows = cursor.fetchall()
        results = []
        for row in rows:
            values = list(row)
            for index, expression, converters in plan.converters:
                for convert in converters:
                    values[index] = convert(values[index], expression, connection)
            results.append(self._model.from_db(connection.alias, plan.attributes, values))
        return results

    def fetch_first(self, *parameters: Any) -> Row | None:
        """Return the first row, None without one."""
        rows = self.fetch_all(*parameters)
        return rows[0] if rows else None

    def _compose(self) -> _Plan:
        table = self._model._meta.db_table
        fields = self._model._meta.concrete_fields
        columns = ", ".join(f'{table}."{field.column}"' for field in fields)
        lock = f" FOR UPDATE OF {table}" if self._lock and connection.features.has_select_for_update else ""
        converters = []
        for index, field in enumerate(fields):
            expression = field.get_col(table)
            functions = [*connection.ops.get_db_converters(expression), *expression.get_db_converters(connection)]
            if functions:
                converters.append((index, expression, functions))
        plan = _Plan(
            f"SELECT {columns} FROM {table} {self._condition}{lock}",  # noqa: S608 - names of this code
            [field.attname for field in fields],
            converters,
        )
        self._plans[connection.vendor] = plan
        return plan
