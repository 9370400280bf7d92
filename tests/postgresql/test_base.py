"""Connections to PostgreSQL that threads share: each one that is handed out is live."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connections
from psycopg.pq import ExecStatus, TransactionStatus

from tests.support.server import PATIENCE, until
from tests.support.services import Postgres, postgres_server
from toolcards.postgresql import base
from toolcards.postgresql.base import DatabaseWrapper, IdleConnections, is_live


@dataclass(eq=False)
class Session:
    """The part of psycopg's connection that idle connections use, on a real socket: the server's end can close it."""

    answers: bool = True  # to a query

    def __post_init__(self) -> None:
        self.client, self.server = socket.socketpair()
        self.info = SimpleNamespace(transaction_status=TransactionStatus.IDLE)
        self.pgconn: Any = SimpleNamespace(exec_=self._execute)

    def __getattr__(self, name: str) -> bool:
        """Return `closed`, as psycopg calls it."""
        if name != "closed":
            raise AttributeError(name)
        return self.client.fileno() < 0

    def fileno(self) -> int:
        return self.client.fileno()

    def close(self) -> None:
        self.client.close()
        self.server.close()

    def _execute(self, query: bytes) -> Any:
        assert query == b"SELECT 1"
        return SimpleNamespace(status=ExecStatus.TUPLES_OK if self.answers else ExecStatus.FATAL_ERROR)


@pytest.fixture
def idle() -> Iterator[IdleConnections]:
    connections_of_test = IdleConnections()
    yield connections_of_test
    connections_of_test.close()


def refuse() -> Any:
    raise OperationalError("connection refused")


# ---------------------------------------------------------------- idle connections
def test_a_connection_that_was_given_back_is_used_again_the_latest_first(idle: IdleConnections) -> None:
    first, second = idle.take(Session), idle.take(Session)
    assert first is not second
    idle.give(first)
    idle.give(second)
    assert idle.take(refuse) is second and idle.take(refuse) is first


def test_a_connection_that_has_ended_is_closed_and_not_handed_out(idle: IdleConnections) -> None:
    first, live = idle.take(Session), idle.take(Session)
    idle.give(live)
    idle.give(first)
    first.server.close()
    first.answers = False
    assert idle.take(refuse) is live and first.closed


@pytest.mark.parametrize("status", [TransactionStatus.INTRANS, TransactionStatus.INERROR, TransactionStatus.UNKNOWN])
def test_a_connection_in_a_transaction_is_closed_and_not_kept(idle: IdleConnections, status: TransactionStatus) -> None:
    session = idle.take(Session)
    session.info.transaction_status = status
    idle.give(session)
    assert session.closed and idle.take(Session) is not session


def test_a_closed_connection_is_not_kept(idle: IdleConnections) -> None:
    session = idle.take(Session)
    session.close()
    idle.give(session)
    assert idle.take(Session) is not session


def test_connections_that_were_idle_for_long_are_closed(idle: IdleConnections, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(base.time, "monotonic", lambda: now[0])
    sessions = [idle.take(Session) for _ in range(3)]
    for session in sessions:
        idle.give(session)
        now[0] += base.OLD / 2
    assert [session.closed for session in sessions] == [False, False, False]
    late = idle.take(Session)
    now[0] += 1
    idle.give(late)
    assert late is sessions[2] and [session.closed for session in sessions] == [True, True, False]


def test_after_a_failure_others_do_not_try_for_a_moment_and_get_its_words(
    idle: IdleConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(base.time, "monotonic", lambda: now[0])
    with pytest.raises(OperationalError, match="connection refused"):
        idle.take(refuse)
    now[0] += base.PAUSE * 0.9
    with pytest.raises(OperationalError, match="connection refused"):
        idle.take(lambda: pytest.fail("tried again"))
    now[0] += base.PAUSE * 0.2
    session = idle.take(Session)
    idle.give(session)
    assert idle.take(refuse) is session
    with pytest.raises(OperationalError):
        idle.take(refuse)
    idle.give(session)
    assert idle.take(refuse) is session  # an idle one needs no attempt


def test_a_failure_takes_no_place(idle: IdleConnections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PAUSE", 0.0)
    monkeypatch.setattr(base, "WAIT", 0.0)
    for _ in range(base.MOST + 1):
        with pytest.raises(OperationalError, match="connection refused"):
            idle.take(refuse)
    assert idle.take(Session)


def test_a_process_has_a_limit_of_connections(idle: IdleConnections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MOST", 2)
    monkeypatch.setattr(base, "WAIT", 0.0)
    taken_session = [idle.take(Session), idle.take(Session)]
    with pytest.raises(OperationalError, match="all 2 connections of this process are in use"):
        idle.take(lambda: pytest.fail("one too many"))
    idle.give(taken_session[0])
    assert idle.take(refuse) is taken_session[0]


def test_a_thread_that_waits_gets_the_connection_that_is_given_back(
    idle: IdleConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MOST", 1)
    taken_session = idle.take(Session)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(idle.take, refuse)
        until(lambda: idle._changed._waiters)  # type: ignore[attr-defined]
        idle.give(taken_session)
        assert waiting.result(PATIENCE) is taken_session


def test_a_connection_that_a_thread_has_lost_makes_room(idle: IdleConnections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MOST", 1)
    session = idle.take(Session)
    session.pgconn = None  # which refers to it
    del session
    assert idle.take(Session)


def test_closing_leaves_the_connections_that_are_in_use(idle: IdleConnections) -> None:
    busy, free = idle.take(Session), idle.take(Session)
    idle.give(free)
    idle.close()
    assert free.closed and not busy.closed
    idle.give(busy)
    assert idle.take(refuse) is busy


def test_many_threads_never_share_a_connection(idle: IdleConnections) -> None:
    busy_ids: set[int] = set()
    lock = threading.Lock()

    def use(_: int) -> None:
        session = idle.take(Session)
        with lock:
            assert id(session) not in busy_ids
            busy_ids.add(id(session))
        with lock:
            busy_ids.remove(id(session))
        idle.give(session)

    with ThreadPoolExecutor(2 * base.MOST) as pool:
        list(pool.map(use, range(500)))
    assert len(idle._idle) <= base.MOST


# ---------------------------------------------------------------- whether one is live
def test_a_silent_connection_is_live_and_a_closed_one_is_not() -> None:
    session = Session()
    session.answers = False
    assert is_live(session)  # nothing to read: the server is not asked
    session.close()
    assert not is_live(session)


@pytest.mark.parametrize("answers", [True, False])
def test_a_server_that_said_something_is_asked(answers: bool) -> None:
    session = Session()
    session.answers = answers
    session.server.send(b"N")  # a notice, or the end of the session
    assert is_live(session) is answers
    session.close()


# ---------------------------------------------------------------- with PostgreSQL
@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with postgres_server(tmp_path_factory.mktemp("base"), migrated=False) as running:
        yield running


@pytest.fixture
def wrapper(postgres: Postgres, django_db_blocker: Any) -> Iterator[DatabaseWrapper]:
    settings = {
        **connections.settings["default"], "ENGINE": "toolcards.postgresql", "NAME": "cards", "USER": "cards",
        "HOST": "127.0.0.1", "PORT": postgres.port, "OPTIONS": {}, "CONN_MAX_AGE": None,
    }  # fmt: skip
    with django_db_blocker.unblock():
        connection = DatabaseWrapper(settings, alias="of this test")
        yield connection
        connection.close()
        connection.close_pool()


def ask(wrapper: DatabaseWrapper) -> int:
    """Return the id of the session that answers."""
    with wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@pytest.mark.postgres
def test_a_closed_connection_is_handed_to_the_next_thread(wrapper: DatabaseWrapper) -> None:
    session = ask(wrapper)
    wrapper.close()
    assert wrapper.connection is None and ask(wrapper) == session
    wrapper.close()
    wrapper.close_pool()
    assert ask(wrapper) != session


@pytest.mark.postgres
def test_an_ended_session_is_replaced_outside_of_transactions(wrapper: DatabaseWrapper, postgres: Postgres) -> None:
    session = ask(wrapper)
    postgres.end_sessions()
    until(lambda: not is_live(wrapper.connection))
    assert ask(wrapper) != session
    wrapper.set_autocommit(False)
    session = ask(wrapper)
    wrapper.in_atomic_block = True
    postgres.end_sessions()
    with pytest.raises(OperationalError):
        ask(wrapper)
    wrapper.in_atomic_block = False
    wrapper.close()
    wrapper.set_autocommit(True)
    assert ask(wrapper) != session


@pytest.mark.postgres
def test_an_idle_session_that_ended_is_not_handed_out(wrapper: DatabaseWrapper, postgres: Postgres) -> None:
    session = ask(wrapper)
    wrapper.close()
    postgres.end_sessions()
    assert ask(wrapper) != session
