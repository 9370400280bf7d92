"""What is due is masked and deleted, in small rounds, and nothing else: not what is open, and not in a dry run."""

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
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.leaky_runs import WORD, aged, everything, make_leaky_run
from toolcards import encryption, gate
from toolcards.core.calls import facts as f
from toolcards.gate.agents.idempotency import ReserveKey, UpdateKey
from toolcards.gate.maintenance import pace, retention, run_masking
from toolcards.gate.writer import group_commit
from toolcards.models import AuditRow, Event, Receipt, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes


@pytest.fixture
def leaky(source: Source) -> Run:
    return make_leaky_run(source)


# ---------------------------------------------------------------- masking
def test_a_dry_run_changes_nothing(leaky: Run, limits: Callable[..., None]) -> None:
    limits(retention_days=1)
    before, out = everything(), StringIO()
    call_command("retention", "--dry-run", stdout=out)
    assert "Would mask the secrets of 0 runs" in out.getvalue() and "Would delete 1 runs, 6 calls" in out.getvalue()
    assert everything() == before


def test_the_command_masks_what_is_due_and_says_so(leaky: Run) -> None:
    out = StringIO()
    call_command("retention", stdout=out)
    assert "Masked the secrets of 1 runs; 0 refused." in out.getvalue()
    row = AuditRow.objects.get(act="retention")
    assert row.run == "leaky" and row.details["masked"]["events"] > 10


def test_runs_that_are_open_or_ended_recently_are_unchanged(a_run: Callable[..., Run]) -> None:
    secret = f.InputReady("c", "bash", {"password": WORD}, True)
    a_run("alive", secret)
    a_run("lately", f.InputReady("c", "bash", {"password": WORD}, True), f.RunEnded())
    with allow_log_writes():
        Run.objects.filter(name="alive").update(started_at=timezone.now() - timedelta(days=9))
    before = everything()
    assert gate.run_retention().scrubbed == 0
    assert everything() == before


# ---------------------------------------------------------------- deleting
def test_old_runs_are_deleted_with_all_that_was_theirs(
    leaky: Run, a_run: Callable[..., Run], limits: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "EVENTS", 20)
    monkeypatch.setattr(retention, "CALLS", 2)
    a_run("young", f.InputReady("c", "bash", {}, True), f.RunEnded())
    assert gate.run_retention().deleted == {}
    limits(retention_days=1)
    completed = gate.run_retention()
    assert completed.deleted["runs"] == 1 and completed.deleted["calls"] == 6
    assert [run.name for run in Run.objects.all()] == ["young"]
    assert not Event.objects.filter(run=leaky.pk).exists() and not ToolCall.objects.filter(run=leaky.pk).exists()
    row = AuditRow.objects.filter(act="retention").order_by("-seq").first()
    assert row and row.details["deleted"]["events"] == completed.deleted["events"]


def test_writers_get_their_turn_after_each_step(
    leaky: Run, limits: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "EVENTS", 20)
    monkeypatch.setattr(retention, "CALLS", 2)
    limits(retention_days=1)
    steps: list[str] = []
    execute = group_commit.execute
    monkeypatch.setattr(group_commit, "execute", lambda work: (steps.append("write"), execute(work))[1])
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: steps.append("rest")))
    gate.run_retention()
    assert len(steps) > 8 and steps == ["write", "rest"] * (len(steps) // 2)


def _answer_request(source: Source, key: str, days_ago: float) -> None:
    receipt = group_commit.execute(ReserveKey(source, key, {}))
    group_commit.execute(UpdateKey(lambda tx: receipt.answer('{"said": "something"}')))
    Receipt.objects.filter(key=key).update(created_at=timezone.now() - timedelta(days=days_ago))


def test_old_receipts_are_forgotten_in_small_rounds_and_counted(
    source: Source, limits: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RECEIPTS", 2)
    for number, days in enumerate((20, 20, 15, 13, 1)):
        _answer_request(source, f"k{number}", days)
    assert gate.run_retention(dry_run=True).deleted["receipts"] == 3 and Receipt.objects.count() == 5
    first, second, third = gate.run_retention(), gate.run_retention(), gate.run_retention()
    assert [completed.deleted["receipts"] for completed in (first, second, third)] == [2, 1, 0]
    assert first.more and not second.more
    assert [row.key for row in Receipt.objects.order_by("pk")] == ["k3", "k4"]
    rows = AuditRow.objects.filter(act="retention").order_by("seq")
    assert [row.details["deleted"]["receipts"] for row in rows] == [2, 1]
    assert group_commit.execute(ReserveKey(source, "k0", {})).untouched
    assert group_commit.execute(ReserveKey(source, "k3", {})).text == '{"said": "something"}'


@pytest.mark.parametrize(("payload", "expected_count"), [
    ({"receipt_days": 0}, 3), ({"receipt_days": 30}, 2), ({"receipt_days": 0, "retention_days": 5}, 1),
    ({"receipt_days": 30, "retention_days": 5}, 1), ({"receipt_days": 3, "retention_days": 50}, 1),
])  # fmt: skip
def test_no_receipt_outlives_its_setting_or_the_runs(
    source: Source, limits: Callable[..., None], payload: dict[str, float], expected_count: int
) -> None:
    for key, days in (("old", 40), ("middle", 10), ("new", 1)):
        _answer_request(source, key, days)
    limits(**payload)
    gate.run_retention()
    assert Receipt.objects.count() == expected_count


# ---------------------------------------------------------------- sealed
def test_what_is_sealed_opens_with_older_keys_too_and_not_with_others(settings: Any) -> None:
    text = "naïve \ud800 text"
    sealed, again = encryption.seal([text, text], "a.b")
    assert sealed != again and encryption.open(sealed, "a.b") == encryption.open(again, "a.b") == text
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another key"
    assert encryption.open(sealed, "a.b") == text
    (new,) = encryption.seal([text], "a.b")
    settings.SECRET_KEY_FALLBACKS = []
    assert encryption.open(new, "a.b") == text
    with pytest.raises(encryption.DecryptionError):
        encryption.open(sealed, "a.b")
    assert encryption.open("never sealed", "a.b") == "never sealed" and encryption.seal([""], "a.b") == [""]
    assert encryption.seal([encryption.UnreadableText(sealed)], "a.b") == [sealed]


# ---------------------------------------------------------------- any runs and settings

runs = st.tuples(
    st.booleans(), st.floats(0.1, 9).filter(lambda days: abs(days - round(days)) > 0.01), st.integers(0, 4)
)
_numbers = itertools.count()


def read_run(run: Run) -> list[Any]:
    """Return what retention never changes of a run that stays."""
    return [
        run.name, run.status, run.ended_at, run.seq, run.calls, run.counts,
        [(call.call_id, call.state, call.rev, call.seq) for call in ToolCall.objects.filter(run=run).order_by("pk")],
        list(Event.objects.filter(run=run).order_by("seq").values_list("seq", "ordinal", "at", "applied")),
    ]  # fmt: skip


@pytest.mark.slow
@draw(100, suppress_health_check=list(HealthCheck))
@given(
    drawn_runs=st.lists(runs, max_size=6), keep_days=st.integers(0, 8), mask_days=st.integers(0, 8),
    size=st.integers(1, 5), rounds=st.sampled_from([0.0, 2.0]),
)  # fmt: skip
def test_retention_deletes_and_masks_what_is_due_and_changes_nothing_else(
    drawn_runs: list[tuple[bool, float, int]], keep_days: int, mask_days: int, size: int, rounds: float,
    a_run: Callable[..., Run], limits: Callable[..., None], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    limits(retention_days=keep_days, secrets_ttl=mask_days * 86_400)
    monkeypatch.setattr(retention, "CALLS", size)
    monkeypatch.setattr(retention, "EVENTS", size)
    monkeypatch.setattr(run_masking, "SLICE", size)
    monkeypatch.setattr(pace, "LONGEST_PAUSE", 0.0)
    stays: dict[int, tuple[list[Any], bool]] = {}  # run -> what stays the same of it, and whether it is masked
    due: set[int] = set()
    for has_ended, days, count in drawn_runs:
        facts = [f.InputReady(f"c{number}", "bash", {"password": WORD}, True) for number in range(count)]
        run = a_run(f"run-{next(_numbers)}", *facts, *[f.RunEnded()] * has_ended)
        if has_ended:
            run = aged(run, days)
        if has_ended and 0 < keep_days < days:
            due.add(run.pk)
        else:
            stays[run.pk] = read_run(run), has_ended and days > mask_days and count > 0
    trail = list(AuditRow.objects.order_by("seq").values_list("seq", "hash"))
    predicted = gate.run_retention(dry_run=True)
    deleted_count = scrubbed_count = 0
    for _ in range(100):
        report = gate.run_retention(seconds=rounds or 1e-9)
        deleted_count, scrubbed_count = deleted_count + report.deleted["runs"], scrubbed_count + report.scrubbed
        if not report.more:
            break
        rounds = 2.0
    assert not Run.objects.filter(pk__in=due).exists() and not Event.objects.filter(run__in=due).exists()
    assert (deleted_count, scrubbed_count) == (predicted.deleted["runs"], predicted.scrubbed)
    for pk, (before, is_masked) in stays.items():
        run = Run.objects.get(pk=pk)
        assert read_run(run) == before
        inputs = [call.as_card().input for call in ToolCall.objects.filter(run=pk)]
        assert all((value == {"password": WORD}) is not is_masked for value in inputs)
    assert list(AuditRow.objects.order_by("seq").values_list("seq", "hash"))[: len(trail)] == trail
