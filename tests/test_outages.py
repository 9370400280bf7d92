"""Outages: one line in the log for each, in words that people know, and no flicker on a disk that is nearly full."""

from __future__ import annotations

import errno
import logging
import sqlite3

import pytest
from django.db import OperationalError

from tests.support.tables import loop_over
from toolcards import outages
from toolcards.outages import BELL, READING, WRITING, find_cause


class Clock:
    """The monotonic clock of `outages`, moved on by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(outages.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def wrap_error(cause: Exception) -> Exception:
    """As Django raises it."""
    try:
        raise OperationalError(str(cause)) from cause
    except OperationalError as error:
        return error


class Unavailable(Exception):
    """As psycopg raises it, with PostgreSQL's code."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__("something at db.internal.example")
        self.sqlstate = sqlstate


@loop_over(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "disk_full"),
        (wrap_error(sqlite3.OperationalError("database or disk is full")), "disk_full"),
        (wrap_error(Unavailable("53100")), "disk_full"),
        (OSError(errno.EROFS, "Read-only file system"), "read_only"),
        (wrap_error(sqlite3.OperationalError("attempt to write a readonly database")), "read_only"),
        (wrap_error(Unavailable("25006")), "read_only"),
        (wrap_error(sqlite3.OperationalError("database is locked")), "locked"),
        (wrap_error(Unavailable("55P03")), "locked"),
        (OSError(errno.EMFILE, "Too many open files"), "no_descriptors"),
        (wrap_error(sqlite3.OperationalError("unable to open database file")), "no_descriptors"),
        (wrap_error(Unavailable("57P01")), "unreachable"),
        (wrap_error(Unavailable("08006")), "unreachable"),
        (TimeoutError("no answer within 3 seconds"), "no_answer"),
        (wrap_error(sqlite3.OperationalError("disk I/O error")), "disk_error"),
        (PermissionError(errno.EACCES, "Permission denied"), "failing"),
        (ValueError("a fault of ours"), "failing"),
    ],
    ids=str,
)
def test_what_drivers_and_the_system_say_has_words_for_people(error: Exception, code: str) -> None:
    assert find_cause(error).code == code


def test_an_outage_is_logged_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(500):
            outages.report_failure(BELL, ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
        outages.report_success(BELL)
    assert len(caplog.records) == 2 and outages.get_outage(BELL) is None


def test_a_part_that_works_only_now_and_then_is_one_outage(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    began = clock.now
    with caplog.at_level(logging.WARNING):
        for _ in range(300):  # a nearly full disk: small writes work, larger ones fail
            outages.report_failure(WRITING, OSError(errno.ENOSPC, "No space left on device"))
            clock.now += 0.5
            outages.report_success(WRITING)
            clock.now += 0.5
    assert len(caplog.records) <= 4
    outage = outages.get_outage(WRITING)
    assert outage is not None and outage.started == began and outage.tries == 300


def test_a_part_that_stays_back_is_soon_no_outage(clock: Clock) -> None:
    outages.report_failure(WRITING, "full")
    outages.report_success(WRITING)
    outages.report_failure(WRITING, "full")
    outages.report_success(WRITING)
    assert outages.get_outage(WRITING) is not None
    clock.now += outages.CALM
    outages.report_success(WRITING)
    assert outages.get_outage(WRITING) is None


def test_silence_does_not_hide_the_reason_that_was_known() -> None:
    outages.report_failure(WRITING, OSError(errno.ENOSPC, "No space left on device"))
    outages.report_failure(WRITING, TimeoutError("no answer within 3 seconds"))
    outage = outages.get_outage(WRITING)
    assert outage is not None and outage.cause.code == "disk_full"


def test_a_full_disk_does_not_count_as_a_database_that_cannot_be_read() -> None:
    outages.report_failure(READING, wrap_error(sqlite3.OperationalError("database or disk is full")))
    assert [outage.part for outage in outages.list_outages()] == [WRITING]


def test_an_error_that_the_writer_has_reported_is_not_the_readers_too() -> None:
    error = OperationalError("disk I/O error")
    outages.report_failure(WRITING, error)
    outages.report_failure(READING, error)
    assert [outage.part for outage in outages.list_outages()] == [WRITING]
