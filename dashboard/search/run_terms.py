"""The terms of a search of runs; its text is searched in their names and titles."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from dashboard.cards import labels
from dashboard.search.search_terms import Search, check_choice, find_empty_fault, find_time_fault, read_time, read_words
from toolcards.models import Run, ToolCall

STATUSES = ("running", "waiting", "finished", "error", "aborted", "truncated")
STATUS_WORDS = {labels.RUN_LABELS[status].word.lower().replace(" ", "-"): status for status in STATUSES}
_STATUSES = {status: status for status in STATUSES} | STATUS_WORDS


def _has_tool(value: str) -> Q:
    return Q(Exists(ToolCall.objects.not_removed().filter(run=OuterRef("pk"), tool__iexact=value)))


_CONDITIONS: dict[str, tuple[Callable[[str], Any], Callable[[str], str]]] = {
    "agent": (lambda value: Q(agent__icontains=value) | Q(agent="", source__name__icontains=value), find_empty_fault),
    "source": (lambda value: Q(source__name=value), find_empty_fault),
    "status": (lambda value: Q(status=_STATUSES[value.lower()]), check_choice(sorted(_STATUSES))),
    "tool": (_has_tool, find_empty_fault),
    "since": (lambda value: Q(started_at__gte=read_time(value)), find_time_fault),
    "until": (lambda value: Q(started_at__lt=read_time(value)), find_time_fault),
}


@lru_cache(maxsize=256)
def parse_run_search(query: str) -> Search:
    """Return the terms of a query of runs; other words are text."""
    return read_words(query, {name: find_fault for name, (_, find_fault) in _CONDITIONS.items()})


def narrow_runs(runs: QuerySet[Run], search: Search) -> QuerySet[Run]:
    """Return the runs that match all terms and have the text."""
    for term in search.terms:
        condition = _CONDITIONS[term.name][0](term.value)
        runs = runs.exclude(condition) if term.is_negated else runs.filter(condition)
    return runs.filter(Q(name__icontains=search.text) | Q(title__icontains=search.text)) if search.text else runs
