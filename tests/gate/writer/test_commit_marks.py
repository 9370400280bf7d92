"""Commit marks tell a commit whose reply was second from one that never happened, and promise nothing on SQLite.

`tests/system/test_on_postgresql.py` runs the tests that need PostgreSQL.
"""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from toolcards.gate.writer import commit_marks
from toolcards.gate.writer.commit_marks import Mark, is_committed, write_mark

pytestmark = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="the marks are for PostgreSQL")


def read_rows() -> list[tuple[str, int]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT process, number FROM toolcards_groupcommit ORDER BY process")
        return list(cursor.fetchall())


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite needs no marks")
def test_a_commit_of_sqlite_has_no_mark_because_no_reply_can_be_lost() -> None:
    with transaction.atomic():
        assert write_mark() is None
    assert read_rows() == []


def test_a_mark_is_unknown_at_once_if_asking_fails_for_another_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_marks, "_READ", "SELECT number FROM no_such_table WHERE process = %s AND 0 < %s")
    if connection.vendor == "sqlite":  # it does not know the limit of locks either, which is the same
        monkeypatch.setattr(commit_marks, "PATIENCE", 60.0)
    began = time.monotonic()
    assert is_committed(Mark(1, 0)) is None
    assert time.monotonic() - began < 30


def test_a_database_that_stays_away_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []

    def fail(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append(sql)
        raise OperationalError("disk I/O error")

    seconds = itertools.count()  # a clock that moves with each look, so that a slow machine asks as often
    clock = SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda pause: None, time=time.time)
    monkeypatch.setattr(commit_marks, "time", clock)
    monkeypatch.setattr(commit_marks, "PATIENCE", 3)
    with connection.execute_wrapper(fail):
        assert is_committed(Mark(1, 0)) is None
    assert len(statements) > 3
    assert commit_marks._END_SESSION in statements  # a session that hangs is ended before the next try


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_marks, "_last_mark", 0)
    monkeypatch.setattr(commit_marks, "PROCESS", "this test")


@on_postgresql
def test_the_last_commit_is_found_and_one_that_was_rolled_back_is_not(marks: None) -> None:
    with transaction.atomic():
        first = write_mark()
    assert first is not None and is_committed(first) is True
    second = None
    with pytest.raises(RuntimeError), transaction.atomic():
        second = write_mark()
        raise RuntimeError
    assert second is not None and is_committed(second) is False
    assert is_committed(first) is True
    with transaction.atomic():
        third = write_mark()
    assert third is not None and third.number == 3
    assert (is_committed(third), is_committed(first)) == (True, False)
    assert [row for row in read_rows() if row[0] == "this test"] == [("this test", 3)]


@on_postgresql
def test_the_first_commit_removes_rows_of_processes_that_ended_long_ago(marks: None) -> None:
    now = time.time()
    with connection.cursor() as cursor:
        for process, age in (("old", commit_marks.MAX_AGE + 60), ("young", commit_marks.MAX_AGE - 60)):
            cursor.execute("INSERT INTO toolcards_groupcommit VALUES (%s, 1, %s)", [process, now - age])
    with transaction.atomic():
        write_mark()
    assert {process for process, _ in read_rows()} >= {"young", "this test"}
    assert "old" not in {process for process, _ in read_rows()}


@on_postgresql
def test_an_outer_transaction_gets_no_mark(marks: None) -> None:
    with transaction.atomic(), transaction.atomic():
        assert write_mark() is None
    assert read_rows() == []


@on_postgresql
def test_a_session_that_hangs_in_its_transaction_is_ended_and_counts_as_rolled_back(marks: None) -> None:
    with transaction.atomic():
        write_mark()
    with connection.copy().temporary_connection() as cursor:
        other: Any = cursor.db
        other.set_autocommit(False)
        cursor.execute("UPDATE toolcards_groupcommit SET number = 9 WHERE process = 'this test'")
        hanging = Mark(9, other.connection.info.backend_pid)
        assert is_committed(hanging) is False
        with pytest.raises(OperationalError):
            cursor.execute("SELECT 1")
        other.close()
