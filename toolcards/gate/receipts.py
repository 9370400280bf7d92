"""Idempotency keys: the first request with a key does the work, the others are given its answer."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from toolcards.gate.refusals import Sealed
from toolcards.gate.transaction import Transaction
from toolcards.gate.work import Action
from toolcards.models import Receipt, Source
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
