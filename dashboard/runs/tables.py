"""Runs and calls as the pages and their live boards list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import Count

from dashboard.cards import labels
from dashboard.cards.rendering import CardForm
from dashboard.cards.times import format_duration
from dashboard.cards.trace import step_log
from dashboard.search.filters import NO_RESULT_WORD, CallFilters, CallListPage, RunFilters
from dashboard.search.search_terms import NO_RESULT
from toolcards.core.calls.card import ToolCallState
from toolcards.core.summaries.summary import summarize
from toolcards.models import Run, ToolCall

PAGE = 50
WAITING = 200
MOST_CARDS = 3  # of the list of all calls, also while it is open: more would push its lines off the screen
_ACTIVE = ("running", "waiting")
# Those of open calls come and go, so they come last: nothing follows them.
_OPEN_STATES = ("approval-requested", "approval-responded", "input-available", "input-streaming")
_BAR_ORDER = (*(state for state in map(str, ToolCallState) if state not in _OPEN_STATES), NO_RESULT, *_OPEN_STATES)
_AGENTS = (  # an open page of the run reads them once a second
    f"SELECT DISTINCT agent FROM {ToolCall._meta.db_table}"  # noqa: S608 - our own names
    " WHERE run_id = %s AND NOT removed AND agent <> '' LIMIT 20"
)


def list_calls(filters: CallFilters, *, before: int = 0) -> CallListPage:
    """Return a page of calls, newest first."""
    return filters.page(PAGE, before)


def list_waiting_calls(limit: int = WAITING) -> list[ToolCall]:
    """Return the calls that wait for a person, oldest first."""
    return list(ToolCall.objects.waiting().select_related("run", "run__source")[:limit])


@dataclass(frozen=True, slots=True)
class ListedCall:
    """A call on the list of all calls, and how the list shows it."""

    row: ToolCall
    form: CardForm


def choose_forms(calls: Iterable[ToolCall]) -> list[ListedCall]:
    """Show the first waiting calls as cards, the rest as lines."""
    listed_calls: list[ListedCall] = []
    cards_left = MOST_CARDS
    for call in calls:
        is_card = call.waiting and cards_left > 0
        cards_left -= is_card
        listed_calls.append(ListedCall(call, CardForm.CARD if is_card else CardForm.LISTED))
    return listed_calls


@dataclass(frozen=True, slots=True)
class StatePart:
    """One state's part of a state bar, on a line of 100."""

    state: str
    word: str
    count: int
    x: float
    width: float


def compute_state_bar(counts: Mapping[str, int]) -> list[StatePart]:
    """Return the segments of a state bar: ended calls, then open ones."""
    total = sum(counts.values())
    parts, x = [], 0.0
    for state in _BAR_ORDER:
        if count := counts.get(state, 0):
            width = count / total * 100
            word = NO_RESULT_WORD if state == NO_RESULT else labels.STATE_LABELS[state].word
            parts.append(StatePart(state, word, count, round(x, 2), round(width, 2)))
            x += width
    return parts


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the table."""

    run: Run
    label: labels.StateLabel
    shares: list[StatePart]
    lasted: str

    @property
    def url(self) -> str:
        """Return the address of its page."""
        return self.run.url


def build_run_row(run: Run, without_result: int | None = None) -> RunRow:
    """Return the run with the values of its table row.

    `without_result`: how many of its calls ended without a result, if the caller has counted them.
    """
    label = labels.get_run_label(run.status)
    end = run.ended_at or (run.updated_at if run.status not in _ACTIVE else None)
    duration = format_duration((end - run.started_at).total_seconds()) if end else ""
    return RunRow(run, label, compute_state_bar(_count_by_shown_state(run, without_result)), duration)


def _count_by_shown_state(run: Run, without_result: int | None = None) -> dict[str, int]:
    counts = run.count_by_state
    errors = counts.get(ToolCallState.OUTPUT_ERROR, 0)
    if not errors:
        return counts
    if without_result is None:
        # Few calls of an active run end without a result, and its row is drawn with every change.
        without_result = (_count_soft_errors_once if run.status in _ACTIVE else _count_soft_errors)(run.pk, errors)
    without_result = min(errors, without_result)
    return counts | {ToolCallState.OUTPUT_ERROR: errors - without_result, NO_RESULT: without_result}


def _count_soft_errors(run: int, errors: int) -> int:
    return min(errors, count_calls_without_result([run]).get(run, 0))


def count_calls_without_result(runs: Iterable[int]) -> dict[int, int]:
    """Count the calls of each run that ended without a result.

    Runs without such calls are left out.
    """
    rows = ToolCall.objects.not_removed().filter(run__in=list(runs), state=ToolCallState.OUTPUT_ERROR, soft=True)
    return dict(rows.order_by().values_list("run").annotate(calls=Count("pk")))


@lru_cache(maxsize=512)
def _count_soft_errors_once(run: int, errors: int) -> int:
    return _count_soft_errors(run, errors)


def list_run_rows(filters: RunFilters, *, before: int = 0) -> tuple[list[RunRow], int]:
    """Return a page of runs and the next one's cursor, or 0."""
    rows = filters.rows()
    runs = list((rows.filter(pk__lt=before) if before else rows)[: PAGE + 1])
    more = runs[PAGE - 1].pk if len(runs) > PAGE else 0
    return build_run_rows(runs[:PAGE]), more


def build_run_rows(runs: Sequence[Run]) -> list[RunRow]:
    """Return the table rows of the runs, by one query for all."""
    failed_pks = [run.pk for run in runs if run.count_by_state.get(ToolCallState.OUTPUT_ERROR)]
    without_result = count_calls_without_result(failed_pks) if failed_pks else {}
    return [build_run_row(run, without_result.get(run.pk, 0)) for run in runs]


def find_newest_call(run: Run) -> dict[str, Any] | None:
    """Return the run's newest call in one line, None without any."""
    call = ToolCall.objects.not_removed().filter(run=run).order_by("-ordinal").first()
    return {"call": call, "summary": summarize(call.as_shown_card())} if call else None


def build_run_header(run: Run) -> dict[str, Any]:
    """Return the values of the run page's header."""
    with connection.cursor() as cursor:
        cursor.execute(_AGENTS, [run.pk])
        agents = sorted(agent for (agent,) in cursor.fetchall())
    context = {"run": run, "row": build_run_row(run), "agents": agents}
    return context | {"skipped": step_log.describe_skipped_frames(run.skipped_frames)}
