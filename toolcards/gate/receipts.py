"""Idempotency keys: the first request with a key does the work, the others are given its answer."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from toolcards.gate.refusals import Sealed
from toolcards.gate.transaction import Transaction
from toolcards.gate.work import Action
from toolcards.models import Receipt, Source
from toolcards.records import Act
from toolcards.vault import Closed

ABANDONED = timedelta(minutes=10)  # a reservation without an answer is the next one's after that


class Reserve(Action):
    """The answer is "" where the key is ours now, what was answered before, or None while somebody is at it."""

    def __init__(self, source: Source, key: str) -> None:
        super().__init__()
        self.source, self.key = source, key

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        row, made = Receipt.objects.select_for_update().get_or_create(source=self.source, key=self.key)
        if not made and not row.answer and row.created_at < timezone.now() - ABANDONED:
            row.created_at, made = timezone.now(), True
            row.save(update_fields=["created_at"])
        if type(row.answer) is Closed:
            raise Sealed("What this request was answered cannot be opened: the key that sealed it is not here.")
        self.answer = "" if made else row.answer or None


class Answer(Action):
    """Write the answer down; without one the key is free again."""

    def __init__(self, source: Source, key: str, answer: str) -> None:
        super().__init__()
        self.source, self.key, self.said = source, key, answer

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        rows = Receipt.objects.filter(source=self.source, key=self.key)
        if self.said:
            rows.update(answer=self.said)
        else:
            rows.filter(answer="").delete()


class Forget(Action):
    """Delete what was answered before that time, oldest first, at most so many. The answer is how many."""

    def __init__(self, before: datetime, most: int) -> None:
        super().__init__()
        self.before, self.most = before, most

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        # In the order of their numbers, which is nearly that of their times: there is no index to keep for this.
        oldest = Receipt.objects.order_by("pk").values_list("pk", "created_at")[: self.most]
        due = [pk for pk, at in oldest if at < self.before]
        self.answer = len(due)
        if due:
            Receipt.objects.filter(pk__in=due).delete()
            tx.acts.append(Act("retention", "timeout", detail={"deleted": {"receipts": len(due)}}, at=tx.now))


def forgotten_before(moment: datetime) -> datetime | None:
    """Return until when receipts are forgotten, in whole hours so that the trail tells it once an hour; None: never."""
    kept = [days for days in (settings.TOOLCARDS.receipt_days, settings.TOOLCARDS.retention_days) if days]
    before = moment - timedelta(days=min(kept)) if kept else None
    return before.replace(minute=0, second=0, microsecond=0) if before else None
