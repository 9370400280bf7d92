"""Decided approvals: who, when, after how long, why, and by which rule of which version."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.accounts.access import needs
from dashboard.cards import labels
from dashboard.search.filters import CHUNK, SEARCHED, CallFilters
from dashboard.search.search_words import list_filter_names, list_search_words
from toolcards.core.calls.card import Card
from toolcards.core.calls.facts import Actor
from toolcards.core.summaries.summary import summarize
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
    filters = CallFilters.read(urlencode({"q": request.GET.get("q", "")}))
    rows = _list_rows(filters, request.GET.get("after", ""))
    more = rows[PAGE - 1] if len(rows) > PAGE else None
    is_first = not request.GET.get("after")
    names = list_filter_names()
    context: dict[str, Any] = {
        "answered": [HistoryRow(row, row.call.as_shown_card()) for row in rows[:PAGE]],
        "next": f"{more.decided_at!r}:{more.pk}" if more else "", "first": is_first,
        "unheard": find_calls_without_outcome() if is_first and not filters.q else [],
        "filters": filters, "words": list_search_words(names["tools"], names["agents"]),
    }  # fmt: skip
    return render(request, "approvals/history.html", context)


def _list_rows(filters: CallFilters, cursor: str) -> list[Approval]:
    """Return a page of decisions and one more; a search that reads cards reads SEARCHED at most."""
    rows = _parse_cursor(cursor)
    if filters.q:
        rows = rows.filter(call__in=filters.rows().order_by().values("pk"))
    if not filters.search.reads_cards:
        return list(rows[: PAGE + 1])
    candidates = rows[:SEARCHED].iterator(chunk_size=CHUNK)
    return list(islice((row for row in candidates if filters.says(row.call)), PAGE + 1))


def _parse_cursor(cursor: str) -> QuerySet[Approval]:
    rows = Approval.objects.filter(asked=True).exclude(state="pending")
    rows = rows.select_related("call__run__source", "run__source").order_by("-decided_at", "-id")
    when, _, pk = cursor.partition(":")
    try:
        decided_at = float(when)
    except ValueError:
        return rows
    return rows.filter(Q(decided_at__lt=decided_at) | Q(decided_at=decided_at, id__lt=pk))
