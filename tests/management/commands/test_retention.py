"""Retention from the command line continues until nothing is due."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate.maintenance import retention
from toolcards.models import Run
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def old_runs(a_run: Any, limits: Any) -> None:
    """Five runs that ended two days ago, of which a day is kept."""
    limits(retention_days=1)
    for number in range(5):
        a_run(f"run-{number}", f.RunEnded())
    with allow_log_writes():
        Run.objects.update(ended_at=timezone.now() - timedelta(days=2))


def test_nothing_is_due_and_it_says_so(run: Callable[..., str], a_run: Any) -> None:
    a_run("r")
    first_line, second_line = run("retention").splitlines()
    assert first_line == "Masked the secrets of 0 runs; 0 refused." and second_line.startswith(
        "Deleted 0 runs, 0 calls"
    )


def test_all_rounds_are_made_and_added_up(
    run: Callable[..., str], old_runs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()  # each look at the clock takes a second, so that a round has time for two runs
    monkeypatch.setattr(retention, "time", SimpleNamespace(time=time.time, monotonic=ticks.__next__))
    monkeypatch.setitem(retention.run_retention.__kwdefaults__, "seconds", 2.5)
    assert gate.run_retention(dry_run=False).deleted["runs"] == 2 and Run.objects.count() == 3
    assert "Deleted 3 runs" in run("retention") and not Run.objects.exists()


def test_a_dry_run_reports_the_numbers_of_the_run_that_follows(
    run: Callable[..., str], old_runs: None, a_run: Any, monkeypatch: pytest.MonkeyPatch, limits: Any
) -> None:
    monkeypatch.setattr(retention, "ROUND", 2)
    limits(retention_days=1, secrets_ttl=0)
    for number in range(3):
        a_run(f"young-{number}", f.InputReady("c", "bash", {"password": "hunter2"}, True), f.RunEnded())
    with allow_log_writes():
        Run.objects.filter(name__startswith="young").update(ended_at=timezone.now() - timedelta(hours=1))
    predicted = run("retention", "--dry-run")
    assert predicted.startswith("Would mask the secrets of 3 runs; 0 refused.\nWould delete 5 runs,")
    lines = [line for line in run("retention").splitlines(keepends=True) if not line.endswith("runs are left.\n")]
    assert "".join(lines) == predicted.replace("Would mask", "Masked").replace("Would delete", "Deleted")


def test_a_dry_run_reports_the_same_and_deletes_nothing(run: Callable[..., str], old_runs: None) -> None:
    assert "Would delete 5 runs" in run("retention", "--dry-run") and Run.objects.count() == 5
    assert "Deleted 5 runs" in run("retention")


def test_it_says_how_many_runs_are_left(
    old_runs: None, limits: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROUND", 2)
    limits(retention_days=1)
    progress = StringIO()
    call_command("retention", stdout=StringIO(), stderr=progress)
    assert progress.getvalue().splitlines() == ["3 runs are left.", "1 runs are left."]
