"""The status of approvals for those who wait for an answer: a few columns, by a statement that is written out."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection


class ApprovalStatus(NamedTuple):
    """The columns of an approval that show its status, and its source. Times are epoch seconds."""

    id: str
    run_id: int
    state: str
    decided_at: float
    by_kind: str
    asked: bool
    source_id: int


_SELECT_STATUSES = (
    "SELECT toolcards_approval.id, run_id, state, decided_at, by_kind, asked, source_id FROM toolcards_approval"
    " JOIN toolcards_run ON toolcards_run.id = run_id WHERE toolcards_approval.id IN "
)


def select_statuses(approvals: list[str]) -> list[ApprovalStatus]:
    """Return the statuses of these approvals, without those that do not exist."""
    with connection.cursor() as cursor:
        cursor.execute(f"{_SELECT_STATUSES}({', '.join(['%s'] * len(approvals))})", approvals)
        return [ApprovalStatus(*row) for row in cursor.fetchall()]
