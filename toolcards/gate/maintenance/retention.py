"""Retention: mask secrets of ended runs permanently, and delete old runs if configured. Only this changes the log.

Everything happens in small rounds. `run_masking` masks one run.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from toolcards.audit.trail import Act
from toolcards.gate.agents import idempotency
from toolcards.gate.maintenance import run_masking
from toolcards.gate.maintenance.pace import Pace
from toolcards.gate.maintenance.run_masking import MaskResult
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Event, Receipt, Run, ToolCall
from toolcards.models.runs import BEING_DELETED
from toolcards.models.write_guard import allow_event_changes

RECEIPTS = 1_000  # receipts that one transaction deletes
EVENTS = 200  # events that one transaction deletes: writers wait for it, and an event may be large
CALLS = 50  # calls that one transaction deletes, with their approvals and votes
ROUND = 50  # runs per round
SECONDS = 2.0  # after which a round starts no further run

_DELETE_EVENTS = (
    "DELETE FROM toolcards_event WHERE id IN (SELECT id FROM toolcards_event WHERE run_id = %s ORDER BY seq LIMIT %s)"
)


@dataclass
class RetentionReport:
    """What a round did, or all rounds would do with `dry_run`. `more`: work is left for the next round."""

    scrubbed: int = 0
    refusals: int = 0
    deleted: Counter[str] = field(default_factory=Counter)
    more: bool = False


def run_retention(now: float | None = None, *, dry_run: bool = False, seconds: float = SECONDS) -> RetentionReport:
    """Mask and delete what is due at `now` (epoch seconds)."""
    moment = datetime.fromtimestamp(time.time() if now is None else now, UTC)
    if dry_run:
        return _predict(moment)
    deadline, report, pace = time.monotonic() + seconds, RetentionReport(), Pace()
    _delete_receipts(moment, report)
    for pk in _list_deletable(moment, report):
        if time.monotonic() > deadline:
            report.more = True
            return report
        report.deleted += _delete_run(pk, _get_deletion_cutoff(moment), pace)
    for run in _list_maskable(moment, report):
        if time.monotonic() > deadline:
            report.more = True
            return report
        result = run_masking.mask_run(run, pace)
        report.scrubbed += result is MaskResult.MASKED
        report.refusals += result is MaskResult.REFUSED
    return report


def _predict(moment: datetime) -> RetentionReport:
    """Return what all rounds would do, with the numbers that they would report."""
    report, before = RetentionReport(), idempotency.find_cutoff(moment)
    report.deleted["receipts"] = Receipt.objects.filter(created_at__lt=before).count() if before else 0
    for pk in _find_deletable(moment):
        report.deleted += _count_rows(pk)
    for run in _find_maskable(moment).iterator(chunk_size=200):
        result = run_masking.mask_run(run)
        report.scrubbed += result is MaskResult.MASKED
        report.refusals += result is MaskResult.REFUSED
    return report


def _get_deletion_cutoff(moment: datetime) -> datetime:
    return moment - timedelta(days=settings.TOOLCARDS.retention_days)


def _find_ended(before: datetime) -> Any:
    return Run.objects.exclude(status__in=("running", "waiting")).filter(ended_at__lt=before).order_by("ended_at", "pk")


def _find_deletable(moment: datetime) -> Any:
    if not settings.TOOLCARDS.retention_days:
        return Run.objects.none().values_list("pk", flat=True)
    return _find_ended(_get_deletion_cutoff(moment)).values_list("pk", flat=True)


def _find_maskable(moment: datetime) -> Any:
    runs = _find_ended(moment - timedelta(seconds=settings.TOOLCARDS.secrets_ttl)).filter(scrubbed_at=None)
    if settings.TOOLCARDS.retention_days:  # what is about to be deleted is not masked first
        runs = runs.filter(ended_at__gte=_get_deletion_cutoff(moment))
    return runs


def _list_deletable(moment: datetime, report: RetentionReport) -> list[int]:
    return _take_round(list(_find_deletable(moment)[: ROUND + 1]), report)


def _list_maskable(moment: datetime, report: RetentionReport) -> list[Run]:
    return _take_round(run_masking.take_unrefused(_find_maskable(moment), ROUND + 1), report)


def count_due_runs(now: float | None = None) -> int:
    """Count runs to mask or delete at `now` (epoch seconds)."""
    moment = datetime.fromtimestamp(time.time() if now is None else now, UTC)
    return int(_find_deletable(moment).count() + run_masking.count_unrefused(_find_maskable(moment)))


def _take_round(batch: list[Any], report: RetentionReport) -> list[Any]:
    report.more = report.more or len(batch) > ROUND
    return batch[:ROUND]


# ---------------------------------------------------------------- deleting


def _delete_receipts(moment: datetime, report: RetentionReport) -> None:
    before = idempotency.find_cutoff(moment)
    oldest = Receipt.objects.order_by("pk").values_list("created_at", flat=True).first()
    if before is None or oldest is None or oldest >= before:
        return
    deleted_count = group_commit.execute(idempotency.DeleteReceipts(before, RECEIPTS))
    report.deleted["receipts"] += deleted_count
    report.more = report.more or deleted_count >= RECEIPTS


def _count_rows(pk: int) -> Counter[str]:
    return Counter(
        runs=1,
        calls=ToolCall.objects.filter(run=pk).count(),
        approvals=Approval.objects.filter(run=pk).count(),
        events=Event.objects.filter(run=pk).count(),
    )


def _delete_run(pk: int, before: datetime, pace: Pace) -> Counter[str]:
    """Delete the run in small transactions with pauses; stop if it has become active again."""
    counts = _count_rows(pk)
    while (is_deleted := group_commit.execute(DeleteRun(pk, before, counts))) is not None:
        pace.pause()
        if is_deleted:
            return counts
    return Counter()


class DeleteRun(Command):
    """Delete the next rows of the run. The answer is whether it is deleted, None if it must stay.

    The first step takes its name away, so that an agent that returns in the middle begins a new run instead of adding
    to the rest of this one.
    """

    def __init__(self, run: int, before: datetime, counts: Counter[str]) -> None:
        super().__init__()
        self.run, self.before, self.counts = run, before, counts

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = None
        row = Run.objects.select_for_update().filter(pk=self.run).first()
        if row is None or not (row.is_being_deleted or self._retire(tx, row)):
            return
        self.answer = self._delete_calls() < CALLS and self._delete_events() < EVENTS
        if self.answer:
            row.delete()

    def _delete_calls(self) -> int:
        calls = list(ToolCall.objects.filter(run=self.run).order_by("pk").values_list("pk", flat=True)[:CALLS])
        ToolCall.objects.filter(pk__in=calls).delete()
        return len(calls)

    def _delete_events(self) -> int:
        with allow_event_changes(), connection.cursor() as cursor:
            cursor.execute(_DELETE_EVENTS, [self.run, EVENTS])
            return int(cursor.rowcount)

    def _retire(self, tx: Transaction, row: Run) -> bool:
        """Take the run's name away if it is due; return whether it is."""
        if row.status in ("running", "waiting") or not row.ended_at or row.ended_at >= self.before:
            return False
        detail = {"deleted": dict(self.counts), "ended_at": row.ended_at.isoformat()}
        tx.audit_acts.append(Act("retention", "timeout", run=row.name, detail=detail, at=tx.now))
        row.name = f"{BEING_DELETED}{row.pk}: {row.name}"[:200]
        row.seq = -1  # no cached copy of the run is valid any longer, in any process
        row.scrubbed_at = row.scrubbed_at or timezone.now()  # it is not masked, too
        row.save(update_fields=["name", "seq", "scrubbed_at"])
        run_cache.discard(row.pk)
        return True
