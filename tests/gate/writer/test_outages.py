"""While the database cannot be written, work is refused as a whole and soon; afterwards all is written again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection

from tests.support.server import PATIENCE
from toolcards import gate, outages
from toolcards.core.calls import facts as f
from toolcards.database import is_transient
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command


class Failing(Command):
    """Work that finds the database away, until it is back."""

    def __init__(self, tries: list[Any]) -> None:
        super().__init__()
        self.tries = tries

    def apply(self, tx: Any) -> None:
        self.tries.append(self)
        raise OperationalError("disk I/O error")


@pytest.fixture
def known_outages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    outages.reset()
    yield
    outages.reset()


@pytest.mark.django_db(transaction=True)
def test_a_batch_that_finds_the_database_away_is_not_tried_piece_by_piece(known_outages: None) -> None:
    tries: list[Any] = []
    works = [Failing(tries) for _ in range(50)]
    outages.report_failure(outages.WRITING, "known")
    group_commit.commit([*works])
    assert tries == works[:1]  # once, and the first piece has said it all
    assert all(is_transient(work.error) for work in works)


class FailingOnce(Failing):
    """Work that finds the database away at its first try."""

    def apply(self, tx: Any) -> None:
        if not self.tries:
            super().apply(tx)


@pytest.mark.django_db(transaction=True)
def test_work_is_retried_as_soon_as_other_work_was_written(known_outages: None) -> None:
    """An outage that came back stays open for a calm time, in which writes work."""
    for _ in range(2):
        outages.report_failure(outages.WRITING, "known")
        group_commit.execute(Waiting())
    assert outages.get_outage(outages.WRITING) is not None
    assert not outages.is_failing(outages.WRITING)
    tries: list[Any] = []
    group_commit.execute(FailingOnce(tries))
    assert len(tries) == 1


class Waiting(Command):
    """Work that says for how many milliseconds it waits for a lock."""

    def apply(self, tx: Any) -> None:
        self.answer = lock_wait()


def lock_wait() -> int:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        return int(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_lock_that_stays_is_waited_for_only_for_a_moment(known_outages: None) -> None:
    usual = connection.settings_dict["OPTIONS"]["timeout"] * 1000
    assert group_commit.execute(Waiting()) == usual
    outages.report_failure(outages.WRITING, "known")
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError, match="locked"):
        group_commit.execute(Waiting())
    other.execute("ROLLBACK")
    other.close()
    assert group_commit.execute(Waiting()) < usual  # nothing has to be restarted
    assert outages.get_outage(outages.WRITING) is None
    assert group_commit.execute(Waiting()) == lock_wait() == usual


@pytest.mark.django_db(transaction=True)
def test_a_stream_that_could_not_be_written_is_given_up_permanently(known_outages: None, source: Any) -> None:
    outages.report_failure(outages.WRITING, "known")
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def push() -> None:
        stream = gate.open_stream(source, "given-up", protocol="native")
        stream.push([f.TextDelta(text="one")])
        with pytest.raises(OperationalError, match="locked"):
            await asyncio.wait_for(stream.wait_until_committed(), PATIENCE)

    asyncio.run(push())
    assert gate.drain(PATIENCE / 6)  # it is not tried again and again
    assert gate.count_backlog() == 0
    other.execute("ROLLBACK")
    other.close()
