"""One try: what is refused is undone, what fails takes all with it, and a lost reply is not a lost commit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction

from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.gate.refusals import NotFound
from toolcards.gate.writer import attempt as attempts
from toolcards.gate.writer.attempt import CommitUnknown, Mark, attempt, is_committed, write_mark
from toolcards.gate.writer.cache import run_cache
from toolcards.gate.writer.command import Command
from toolcards.models import Approval, Event, Run, Source

pytestmark = pytest.mark.django_db(transaction=True)


class Work(Command):
    """Calls functions in their order, with the transaction."""

    def __init__(self, *parts: Callable[[Any], Any]) -> None:
        super().__init__()
        self.parts = parts

    def apply(self, tx: Any) -> None:
        for part in self.parts:
            part(tx)


class Frames:
    """A work of a stream: what it has changed in its run cannot be undone alone."""

    urgent = False

    def __init__(self, source: Source, *parts: Callable[[Any], Any]) -> None:
        self.source, self.parts = source, parts

    def run_keys(self) -> list[tuple[int, str]]:
        return [(self.source.pk, "r")]

    def list_approvals(self) -> list[str]:
        return []

    def apply(self, tx: Any) -> None:
        for part in self.parts:
            part(tx)


def record(source: Source, name: str, text: str) -> Callable[[Any], Any]:
    def part(tx: Any) -> None:
        tx.record(tx.get_or_create_run(source.pk, name, protocol="native"), f.TextDelta(text=text, at=tx.now))

    return part


def refuse(tx: Any) -> None:
    raise NotFound("Not found.")


def fail(tx: Any) -> None:
    raise RuntimeError("broken")


def write(tx: Any) -> None:
    Source.objects.update(name="written")


def read(tx: Any) -> None:
    list(Source.objects.all())
    with transaction.atomic():  # a savepoint is no write
        list(Run.objects.all())


def read_texts(run: str = "r") -> list[str]:
    facts = [event.decoded_fact for event in Event.objects.filter(run__name=run).order_by("seq")]
    return [fact.text for fact in facts if isinstance(fact, f.TextDelta)]


# ---------------------------------------------------------------- refused and failed works


def test_works_are_written_in_their_order_and_nothing_is_wrong(source: Source) -> None:
    result = attempt([Work(record(source, "r", str(number))) for number in range(3)])
    assert (result.error, result.culprit, result.refusals) == (None, -1, {})
    assert read_texts() == ["0", "1", "2"]


def test_a_work_that_is_refused_before_it_writes_leaves_no_trace_among_the_others(source: Source) -> None:
    refusers = [Work(read, refuse), *(Work(record(source, name, "refused"), refuse) for name in ("r", "new"))]
    result = attempt([Work(record(source, "r", "1")), *refusers, Work(record(source, "r", "2"))])
    assert (result.error, result.culprit, sorted(result.refusals)) == (None, -1, [1, 2, 3])
    assert all(isinstance(refusal, NotFound) for refusal in result.refusals.values())
    assert read_texts() == ["1", "2"] and not Run.objects.filter(name="new").exists()
    assert run_cache.find_pk(source.pk, "new") is None


@loop_over("parts", [
    [write, refuse], [lambda tx: transaction.on_commit(lambda: None), refuse], [fail], [write, fail],
])  # fmt: skip
def test_a_work_that_fails_or_is_refused_too_late_is_named_and_nothing_is_written(
    parts: list[Any], source: Source
) -> None:
    name = source.name
    result = attempt([Work(record(source, "r", "1")), Work(*parts), Work(fail)])
    assert (type(result.error), result.culprit, result.refusals) == (
        NotFound if refuse in parts else RuntimeError, 1, {},
    )  # fmt: skip
    assert not Run.objects.exists() and Source.objects.get().name == name
    assert run_cache.find_pk(source.pk, "r") is None


def test_a_stream_is_refused_alone_only_if_its_run_is_unchanged(source: Source) -> None:
    result = attempt([Work(record(source, "other", "1")), Frames(source, read, refuse)])
    assert (result.error, list(result.refusals), read_texts("other")) == (None, [1], ["1"])
    result = attempt([Work(record(source, "other", "2")), Frames(source, record(source, "r", "1"), refuse)])
    assert (type(result.error), result.culprit) == (NotFound, 1)
    assert read_texts("other") == ["1"]
    assert attempt([Work(record(source, "other", "2"))]).error is None
    assert read_texts("other") == ["1", "2"]


def test_what_fails_after_the_works_has_no_culprit(source: Source) -> None:
    result = attempt([Work(record(source, "r", "1"), lambda tx: tx.after_write.append(lambda: fail(tx)))])
    assert (type(result.error), result.culprit) == (RuntimeError, -1)
    assert read_texts() == []


def test_the_next_work_reads_the_approvals_that_the_one_before_it_changed(a_call: Any) -> None:
    run = a_call("approval-requested").run_id
    states: list[str] = []

    def close(tx: Any) -> None:
        memory = tx.load_run(run)
        tx.record(memory, f.CallClosed("call-1", "cancelled", at=tx.now), memory.board.cards[1])

    result = attempt([Work(close), Work(lambda tx: states.append(Approval.objects.get().state))])
    assert (result.error, states) == (None, ["cancelled"])


# ---------------------------------------------------------------- statements


@loop_over("sql, writes, has_written", [
    ("SELECT 1", 0, False), ("SAVEPOINT s", 0, False), ("RELEASE SAVEPOINT s", 0, False),
    ('INSERT INTO "toolcards_run" (x)', 0, True), ('INSERT INTO "toolcards_runs"', 1, True),
    ("UPDATE x", 1, True), ("DELETE FROM x", 1, True), ("ROLLBACK TO SAVEPOINT s", 1, True), ("WITH x", 1, True),
])  # fmt: skip
def test_every_statement_that_may_write_is_counted_but_those_of_new_runs_are_forgiven(
    sql: str, writes: int, has_written: bool
) -> None:
    watch = attempts._StatementWatch()
    assert watch._count(lambda *args: args, sql, (), False, {}) == (sql, (), False, {})
    assert (watch.writes, watch.has_written) == (writes, has_written)


# ---------------------------------------------------------------- the reply to COMMIT


@pytest.fixture
def lost_reply(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give `lost_reply(is_committed, error)`: the next COMMIT raises the error, and the mark tells what is known."""

    def lose(is_committed: bool | None, error: Exception) -> None:
        commit, tries = connection._commit, iter([1])

        def lose_once() -> None:
            if not next(tries, 0):
                return commit()
            commit() if is_committed else connection._rollback()
            raise error

        monkeypatch.setattr(connection, "_commit", lose_once)
        monkeypatch.setattr(attempts, "write_mark", lambda: attempts.Mark(1, 0))
        monkeypatch.setattr(attempts, "is_committed", lambda mark: is_committed)

    return lose


AWAY = OperationalError("disk I/O error")


@pytest.mark.django_db(transaction=True)
def test_a_commit_whose_reply_was_lost_counts_and_its_callbacks_run(source: Source, lost_reply: Any) -> None:
    notes: list[str] = []

    def listen(tx: Any) -> None:
        transaction.on_commit(lambda: 1 / 0, robust=True)
        transaction.on_commit(lambda: notes.append("committed"), robust=True)

    lost_reply(True, AWAY)
    result = attempt([Work(record(source, "r", "1"), listen)])
    assert (result.error, notes, read_texts()) == (None, ["committed"], ["1"])
    assert attempt([Work(record(source, "r", "2"))]).error is None  # the cached run is right
    assert read_texts() == ["1", "2"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("is_committed", "error", "expected"), [
    (False, AWAY, OperationalError), (None, AWAY, CommitUnknown), (False, InterfaceError("closed"), InterfaceError),
    (None, RuntimeError("another fault"), RuntimeError),
])  # fmt: skip
def test_a_commit_that_did_not_happen_or_is_unknown_fails_and_is_forgotten(
    source: Source, lost_reply: Any, is_committed: bool | None, error: Exception, expected: type[Exception]
) -> None:
    notes: list[str] = []
    lost_reply(is_committed, error)
    hook = lambda tx: transaction.on_commit(lambda: notes.append("committed"))  # noqa: E731
    result = attempt([Work(record(source, "r", "1"), hook)])
    assert (type(result.error), result.culprit, notes) == (expected, -1, [])
    assert run_cache.find_pk(source.pk, "r") is None
    assert attempt([Work(record(source, "r", "1"))]).error is None
    assert read_texts() == ["1"]


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
    monkeypatch.setattr(attempts, "_READ", "SELECT number FROM no_such_table WHERE process = %s AND 0 < %s")
    if connection.vendor == "sqlite":  # it does not know the limit of locks either, which is the same
        monkeypatch.setattr(attempts, "PATIENCE", 60.0)
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
    monkeypatch.setattr(attempts, "time", clock)
    monkeypatch.setattr(attempts, "PATIENCE", 3)
    with connection.execute_wrapper(fail):
        assert is_committed(Mark(1, 0)) is None
    assert len(statements) > 3
    assert attempts._END_SESSION in statements  # a session that hangs is ended before the next try


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_last_mark", 0)
    monkeypatch.setattr(attempts, "PROCESS", "this test")


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
        for process, age in (("old", attempts.MAX_AGE + 60), ("young", attempts.MAX_AGE - 60)):
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
