"""Words that a search field suggests: terms with few values, and the tools and agents of the latest calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from dashboard.cards import labels, safe_text
from dashboard.search.search_terms import (
    NO_RESULT,
    STATE_WORDS,
    Search,
    check_choice,
    find_empty_fault,
    find_time_fault,
    read_time,
    read_words,
)
from toolcards.core.calls.card import KINDS
from toolcards.core.risk.assessment import LEVELS
from toolcards.models import Run, ToolCall

# The terms of a search of runs; its text is searched in their names and titles.
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


_TIME_WORDS = ["since:15m", "since:2h", "since:1d", "until:1h"]


def list_search_words(tools: list[str], agents: list[str]) -> list[str]:
    """Return words to suggest, those with few values first."""
    names = [f"{name}:" for name in ("path", "reads", "writes", "by", "run", "source")]
    return [
        *(f"state:{word}" for word in [*STATE_WORDS, NO_RESULT]),
        *(f"risk:{level}" for level in LEVELS),
        *_TIME_WORDS,
        *names,
        *(f"kind:{kind}" for kind in sorted(KINDS)),
        *(f"{name}:{_quote(value)}" for name, values in (("tool", tools), ("agent", agents)) for value in values),
    ]


def list_run_words(agents: list[str], sources: list[str]) -> list[str]:
    """Return words to suggest for a search of runs."""
    return [
        *(f"status:{word}" for word in STATUS_WORDS), *_TIME_WORDS, "tool:",
        *(f"{name}:{_quote(value)}" for name, values in (("agent", agents), ("source", sources)) for value in values),
    ]  # fmt: skip


def _quote(value: str) -> str:
    return f'"{value}"' if " " in value else value


def list_filter_names() -> dict[str, list[str]]:
    """List tools and agents of the latest calls, to suggest as filters.

    Browsers show suggestions unmarked, so names with misleading characters are left out; the filter still finds them.
    """
    rows = set(ToolCall.objects.not_removed().order_by("-pk").values_list("tool", "agent")[:2_000])
    tools, agents = ({row[n] for row in rows if row[n] and safe_text.mark_text(row[n]) == row[n]} for n in (0, 1))
    return {"tools": sorted(tools)[:100], "agents": sorted(agents)[:100]}
