"""The usage of a source: one amount for several processes, over failed commits, restarts and kills, against a model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from toolcards.clocks import Clock
from toolcards.gate import source_usage
from toolcards.gate.source_usage import UsageBook
from toolcards.models import SourceUsage

pytestmark = pytest.mark.django_db(transaction=True)
QUOTA, RATE, SOURCE = 1_000_000, 1_000_000 / 3_600, 1
sizes, processes = st.integers(1, 1_500_000), st.integers(0, 1)


class Usage(RuleBasedStateMachine):
    """Two processes that share a database; the model knows the level that is stored."""

    def __init__(self) -> None:
        super().__init__()
        SourceUsage.objects.all().delete()
        self.level, self.time.now = 0.0, 1_000_000.0
        self.books, self.fresh = [UsageBook(), UsageBook()], {0, 1}

    time = SimpleNamespace(now=0.0)

    @rule(process=processes, size=sizes, failures=st.integers(0, 2))
    def send(self, process: int, size: int, failures: int) -> None:
        """Send a message, whose commit fails so often before it succeeds."""
        seconds = self.count(process, size)
        if seconds:
            return
        for _ in range(failures):
            with pytest.raises(IntegrityError), transaction.atomic():
                self.books[process].store()
                raise IntegrityError
        with transaction.atomic():
            self.books[process].store()
        self.level, self.fresh = self.level + size, {process}
        assert SourceUsage.objects.get(pk=SOURCE).level == pytest.approx(self.level)

    @rule(process=processes, size=sizes, stores=st.booleans())
    def send_and_give_back(self, process: int, size: int, stores: bool) -> None:
        """Give back what was counted and perhaps stored: in the end it does not count."""
        if self.count(process, size):
            return
        if stores:
            with transaction.atomic():
                self.books[process].store()
            self.fresh = {process}
        self.books[process].give_back(SOURCE, size)
        with transaction.atomic():
            self.books[process].store()
        self.fresh = {process} if stores else self.fresh

    @rule(process=processes, size=sizes)
    def send_to_a_process_that_is_killed(self, process: int, size: int) -> None:
        """Of what is not committed nothing counts."""
        self.count(process, size)
        self.restart(process)

    @rule(process=processes)
    def restart(self, process: int) -> None:
        self.books[process] = UsageBook()
        self.read(process)

    @rule(process=processes)
    def read(self, process: int) -> None:
        self.books[process].read(SOURCE)
        self.fresh.add(process)

    @rule(seconds=st.floats(0, 4_000))
    def wait(self, seconds: float) -> None:
        self.time.now += seconds
        self.level = max(0.0, self.level - seconds * RATE)

    def count(self, process: int, size: int) -> int:
        room = QUOTA - self.level - min(size, QUOTA)
        seconds = self.books[process].count(SOURCE, size)
        if room > 1:
            assert not seconds, "refused though there was room"
        if room < -1 and process in self.fresh:
            assert seconds >= -room / RATE - 1, "accepted beyond the quota"
        assert self.books[process].count(SOURCE + 1, 1) == 0  # another source has a quota of its own
        return seconds


@pytest.fixture
def quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_usage, "clock", Clock(lambda: Usage.time.now, lambda: Usage.time.now))
    monkeypatch.setattr(source_usage, "settings", SimpleNamespace(TOOLCARDS=SimpleNamespace(source_quota=1.0)))


@pytest.mark.usefixtures("quota")
def test_a_source_has_one_quota_over_processes_failures_and_restarts() -> None:
    checks = [HealthCheck.function_scoped_fixture]
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Usage, settings=settings(max_examples=30, stateful_step_count=20, deadline=None, suppress_health_check=checks)
    )


@pytest.mark.usefixtures("quota")
def test_what_is_never_stored_drains_too() -> None:
    Usage.time.now = 1_000_000.0
    book = UsageBook()
    assert not book.count(SOURCE, QUOTA)
    seconds = book.count(SOURCE, QUOTA)
    assert seconds == 3_600
    Usage.time.now += seconds
    assert not book.count(SOURCE, QUOTA)


@pytest.mark.usefixtures("quota")
def test_a_clock_that_is_set_back_gives_no_one_a_second_quota() -> None:
    Usage.time.now = 1_000_000.0
    book = UsageBook()
    assert not book.count(SOURCE, QUOTA)
    with transaction.atomic():
        book.store()
    Usage.time.now -= 50_000
    later_book = UsageBook()
    later_book.read(SOURCE)
    assert later_book.count(SOURCE, QUOTA) == 3_600


def test_nothing_is_written_where_nothing_was_sent() -> None:
    with transaction.atomic():
        UsageBook().store()
    assert not SourceUsage.objects.exists()
