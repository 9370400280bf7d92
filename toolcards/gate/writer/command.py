"""What all pieces of writing have in common: an answer or an error, and who waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from toolcards.gate.refusals import NotFound
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Run, Source


class Command:
    """One request's writing: `apply` leaves its `answer`, or raises what the caller gets."""

    urgent = True

    def __init__(self) -> None:
        self.answer: Any = None
        self.error: Exception | None = None
        self.on_finish: Callable[[], None] = lambda: None

    def mark_dequeued(self) -> None:
        """See group_commit.Work."""

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """See group_commit.Work."""
        return ()

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        raise NotImplementedError

    def finish(self, error: Exception | None) -> None:
        """See group_commit.Work."""
        self.error = error
        self.on_finish()


class RunCommand(Command):
    """An action on one run of a source, by the sender's names."""

    def __init__(self, source: Source, run: str) -> None:
        super().__init__()
        self.source, self.run = source, run

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """See group_commit.Work."""
        return [(self.source.pk, self.run)]

    def _run(self, tx: Transaction) -> RunMemory:
        row = Run.objects.filter(source=self.source, name=self.run).only("pk").first()
        if row is None:
            raise NotFound("There is no such run.")
        return tx.load_run(row.pk)

    def _approval(self, **where: Any) -> Approval:
        row = Approval.objects.select_for_update().filter(run__source=self.source, **where).first()
        if row is None:
            raise NotFound("There is no such approval.")
        return row
