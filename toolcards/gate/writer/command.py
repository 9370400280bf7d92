"""The base of commands: work for the writer with an answer or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from toolcards.gate.refusals import NotFound
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Run, Source


class Command:
    """The work of one request. `apply` sets the `answer`, or raises the error for the caller."""

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

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return ()

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        raise NotImplementedError

    def finish(self, error: Exception | None) -> None:
        """See group_commit.Work."""
        self.error = error
        self.on_finish()


class ApprovalCommand(Command):
    """A command on one approval."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return [self.approval]


class RunCommand(Command):
    """A command on one run of a source, named as the sender names it."""

    def __init__(self, source: Source, run: str) -> None:
        super().__init__()
        self.source, self.run = source, run

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """See group_commit.Work."""
        return [(self.source.pk, self.run)]

    def _run(self, tx: Transaction) -> RunMemory:
        row = Run.objects.filter(source=self.source, name=self.run).only("pk").first()
        if row is None:
            raise NotFound("Run not found.")
        return tx.load_run(row.pk)

    def _load_approval(self, pk: str) -> Approval:
        row = approval_rows.load_approval(pk, self.source.pk)
        if row is None:
            raise NotFound("Approval not found.")
        return row
