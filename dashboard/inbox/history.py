"""Decided approvals: who, when, after how long, why, and by which rule of which version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.accounts.access import needs
from dashboard.cards import labels
from toolcards.core.calls.card import Card
from toolcards.core.calls.facts import Actor
from toolcards.core.calls.summary import summarize
from toolcards.models import Approval

PAGE = 50
MAX_CALLS = 50  # calls without an outcome on the page
ANSWER_WORDS = {
    "approved": "Approved", "claimed": "Approved", "succeeded": "Approved", "failed": "Approved", "unknown": "Approved",
    "denied": "Denied", "expired": "Expired", "cancelled": "Withdrawn", "superseded": "Replaced", "revoked": "Revoked",
}  # fmt: skip

LATER_WORDS = {
    "expired": "not started in time", "cancelled": "the run ended first", "superseded": "a newer request replaced it",
}  # fmt: skip
PEOPLE = ("human", "reviewer", "grant", "break_glass")


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One row of the page."""

    approval: Approval
    card: Card

    @property
    def summary(self) -> str:
        """Return the call in one line."""
        return summarize(self.card)

    @property
    def word(self) -> str:
        """Return the answer in words."""
        return "Approved" if self._was_approved else ANSWER_WORDS.get(self.approval.state, self.approval.state)

    @property
    def _was_approved(self) -> bool:
        """Return whether a person or reviewer approved it, whatever became of the call."""
        row = self.approval
        return row.state in LATER_WORDS and row.by_kind in PEOPLE and bool(row.permit_expires_at)

    @property
    def later(self) -> str:
        """Return what became of an approval that was not used."""
        return LATER_WORDS[self.approval.state] if self._was_approved else ""

    @property
    def decider(self) -> str:
        """Return what decided where no name is known, without article."""
        return labels.describe_actor(Actor(self.approval.by_kind)).removeprefix("the ")

    @property
    def waiting_seconds(self) -> float | None:
        """Return the seconds between request and decision."""
        row = self.approval
        return row.decided_at - row.requested_at if row.decided_at else None

    @property
    def rule(self) -> str:
        """Return the rule that required approval, or the code of the default."""
        verdict = self.card.decision
        return (verdict.rule or verdict.code) if verdict else ""


def find_calls_without_outcome(earliest: float = 0.0) -> list[HistoryRow]:
    """Return approved calls without an outcome, the latest first.

    People record their outcome by hand.
    """
    rows = Approval.objects.filter(state="unknown", requested_at__gte=earliest)
    rows = rows.select_related("call", "run", "run__source").order_by("-requested_at", "-id")[:MAX_CALLS]
    history_rows = [HistoryRow(row, row.call.as_shown_card()) for row in rows]
    return [history_row for history_row in history_rows if history_row.card.has_unknown_outcome]


@require_GET
@needs()
def history(request: HttpRequest) -> HttpResponse:
    """List the latest decisions first, in pages."""
    rows = list(_parse_cursor(request.GET.get("after", ""))[: PAGE + 1])
    more = rows[PAGE - 1] if len(rows) > PAGE else None
    context: dict[str, Any] = {
        "answered": [HistoryRow(row, row.call.as_shown_card()) for row in rows[:PAGE]],
        "next": f"{more.decided_at!r}:{more.pk}" if more else "",
        "first": not request.GET.get("after"),
        "unheard": [] if request.GET.get("after") else find_calls_without_outcome(),
    }
    return render(request, "approvals/history.html", context)


def _parse_cursor(cursor: str) -> Any:
    rows = Approval.objects.filter(asked=True).exclude(state="pending")
    rows = rows.select_related("call", "run", "run__source").order_by("-decided_at", "-id")
    when, _, pk = cursor.partition(":")
    try:
        decided_at = float(when)
    except ValueError:
        return rows
    return rows.filter(Q(decided_at__lt=decided_at) | Q(decided_at=decided_at, id__lt=pk))
