"""Statistics of the newest calls for each tool or agent: counts, outcomes, durations. The Tools and Agents pages."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import BigIntegerField, Case, Count, F, Func, Max, Q, Value, When
from django.db.models.functions import Coalesce, NullIf
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.accounts.access import needs
from dashboard.cards.times import format_duration
from toolcards.core.calls.card import ToolCallState
from toolcards.models import ToolCall

MAX_CALLS = 20_000  # newest calls that are counted, so that the page's cost does not grow with the store
RANGES = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "all": None}
BUCKETS = (0.01, 0.1, 1.0, 10.0, 60.0, math.inf)  # upper ends of the histogram's bars, in seconds
BUCKET_LABELS = ("up to 10 ms", "up to 100 ms", "up to 1 s", "up to 10 s", "up to 1 min", "longer")
BAR_HEIGHT = 16  # of the highest bar
SORT_ORDERS = ("calls", "failed", "p50", "p95", "approvals", "denied")
_FINAL_STATES = {ToolCallState.OUTPUT_AVAILABLE, ToolCallState.OUTPUT_ERROR}


class CountedCalls(NamedTuple):
    """Calls that agree in all counted values. `microseconds`: the duration, None if it has no meaning."""

    name: str
    state: str
    soft: bool
    was_asked: bool
    is_open: bool
    microseconds: int | None = None
    calls: int = 1


class Microseconds(Func):
    """The time between two columns in whole microseconds, counted in the database: Django would parse each time."""

    output_field = BigIntegerField()
    arity = 2

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return the SQL of PostgreSQL."""
        start, end = self._compile_columns(compiler)
        return f"CAST(EXTRACT(EPOCH FROM ({end} - {start})) * 1000000 AS BIGINT)", []

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, tuple[str | int, ...]]:
        """Return the SQL of SQLite.

        It has times as text, such as 2026-11-23 13:28:00.000123, and its own functions round them to milliseconds.
        """
        start, end = (
            f"(CAST(strftime('%%s', substr({column}, 1, 19)) AS INTEGER) * 1000000 "
            f"+ CAST(substr({column}, 21, 6) AS INTEGER))"
            for column in self._compile_columns(compiler)
        )
        return f"({end} - {start})", ()

    def _compile_columns(self, compiler: Any) -> tuple[str, str]:
        start, end = (compiler.compile(column)[0] for column in self.get_source_expressions())
        return start, end


@dataclass(frozen=True, slots=True)
class HistogramBar:
    """One bar: its share of the highest one, in units of BAR_HEIGHT."""

    label: str
    count: int
    x: int
    y: float
    height: float


@dataclass(slots=True)
class CallStatistics:
    """The statistics of one tool or agent."""

    name: str
    calls: int = 0
    failed: int = 0
    approvals: int = 0
    denied: int = 0
    open: int = 0
    durations: list[float] = field(default_factory=list)

    def add(self, group: CountedCalls) -> None:
        """Count the calls of a group.

        A call that ended with its run has no result, but did not fail. The duration runs from the beginning of the
        input to the result. Calls that waited for a person have none, because it would measure the person.
        """
        self.calls += group.calls
        self.approvals += group.calls * group.was_asked
        self.denied += group.calls * (group.state == ToolCallState.OUTPUT_DENIED)
        self.failed += group.calls * (group.state == ToolCallState.OUTPUT_ERROR and not group.soft)
        self.open += group.calls * group.is_open
        has_duration = group.state in _FINAL_STATES and not group.soft and not group.was_asked
        if has_duration and group.microseconds is not None:
            self.durations += [max(0.0, group.microseconds / 1e6)] * group.calls

    @property
    def row_id(self) -> str:
        """Return the id of its row on a page."""
        return f"row-{hashlib.sha256(self.name.encode(errors='surrogatepass')).hexdigest()[:20]}"

    @property
    def failure_rate(self) -> str:
        """Return the percentage of finished calls that failed, or ""."""
        finished_count = self.calls - self.open
        return f"{100 * self.failed / finished_count:.0f} %" if finished_count else ""

    @property
    def p50(self) -> str:
        """Return the median duration for people, "" without one."""
        return self._format_percentile(0.5)

    @property
    def p95(self) -> str:
        """Return the 95th percentile of the duration for people, "" without one."""
        return self._format_percentile(0.95)

    @property
    def histogram(self) -> list[HistogramBar]:
        """Return the bars of the durations, empty without any."""
        durations = sorted(self.durations)
        ends = [0, *(bisect_right(durations, end) for end in BUCKETS)]
        counts = [end - start for start, end in pairwise(ends)]
        highest = max(counts)
        if not highest:
            return []
        heights = [max(1.0, round(BAR_HEIGHT * count / highest, 1)) if count else 0.0 for count in counts]
        return [
            HistogramBar(label, count, index * 8, round(BAR_HEIGHT - height, 1), height)
            for index, (label, count, height) in enumerate(zip(BUCKET_LABELS, counts, heights, strict=True))
        ]

    def get_sort_value(self, order: str) -> float:
        """Return the number to sort by, one of SORT_ORDERS."""
        if order in ("p50", "p95"):
            return compute_percentile(self.durations, 0.5 if order == "p50" else 0.95) or 0.0
        return float(getattr(self, order))

    def _format_percentile(self, share: float) -> str:
        value = compute_percentile(self.durations, share)
        return "" if value is None else format_duration(value)


def compute_percentile(values: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile, None without values.

    `share`: between 0 and 1.
    """
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def compute_statistics(groups: Iterable[CountedCalls], order: str = "calls") -> list[CallStatistics]:
    """Return the numbers of each name, the highest first."""
    rows: dict[str, CallStatistics] = {}
    for group in groups:
        if group.name not in rows:
            rows[group.name] = CallStatistics(group.name)
        rows[group.name].add(group)
    for row in rows.values():
        row.durations.sort()  # once, since each percentile and the histogram sort them again, which is quick then
    return sorted(rows.values(), key=lambda row: (-row.get_sort_value(order), -row.calls, row.name))


def fetch_groups(column: Any, earliest: datetime | None) -> list[CountedCalls]:
    """Return the newest calls in groups, counted by the database.

    They began after `earliest` and are at most MAX_CALLS. `column`: the expression of the name, one of COLUMNS.
    """
    newest = ToolCall.objects.aggregate(newest=Max("pk"))["newest"] or 0
    rows = ToolCall.objects.not_removed().filter(pk__gt=newest - MAX_CALLS).order_by()
    if earliest is not None:
        rows = rows.filter(started_at__gte=earliest)
    has_duration = Q(
        state__in=_FINAL_STATES, soft=False, requested_at=None, started_at__isnull=False, finished_at__isnull=False
    )
    marked_rows = rows.annotate(
        was_asked=Q(requested_at__isnull=False),
        is_open=Q(finished_at__isnull=True),
        microseconds=Case(When(has_duration, then=Microseconds("started_at", "finished_at"))),
    )
    groups = marked_rows.annotate(group_name=column).values_list(
        "group_name", "state", "soft", "was_asked", "is_open", "microseconds"
    )
    return [CountedCalls(*row) for row in groups.annotate(calls=Count("pk"))]


MAX_ROWS = 200
DEFAULT_RANGE = "24h"
COLUMNS: dict[str, Any] = {"tools": F("tool"), "agents": Coalesce(NullIf("run__agent", Value("")), "run__source__name")}
RANGE_LABELS = {"1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "all": "All"}
SORT_LABELS = {
    "calls": "Calls", "failed": "Failed", "p50": "Median", "p95": "p95", "approvals": "Asked", "denied": "Denied",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a page, the highest first; `left_out` more are not shown. `call_count`: the number of calls."""

    rows: list[CallStatistics]
    left_out: int
    call_count: int

    @property
    def footer(self) -> dict[str, int]:
        """Return what the line below the rows says."""
        return {"counted": self.call_count, "limit": MAX_CALLS, "left_out": self.left_out}


@dataclass(frozen=True, slots=True)
class TableChoice:
    """What a page shows: `page` is one of COLUMNS, `range` of RANGES, `order` of SORT_ORDERS."""

    page: str
    range: str
    order: str

    @classmethod
    def read(cls, page: str, query: Mapping[str, str]) -> TableChoice:
        """Return the choice of a query; unknown values are the defaults."""
        range_name, order = query.get("range", ""), query.get("sort", "")
        return cls(
            page, range_name if range_name in RANGES else DEFAULT_RANGE, order if order in SORT_ORDERS else "calls"
        )

    def compute(self) -> Table:
        """Count the calls and return the table."""
        length = RANGES[self.range]
        groups = fetch_groups(COLUMNS[self.page], timezone.now() - length if length else None)
        rows = compute_statistics(groups, self.order)
        return Table(rows[:MAX_ROWS], max(0, len(rows) - MAX_ROWS), sum(group.calls for group in groups))


@require_GET
@needs()
def tools(request: HttpRequest) -> HttpResponse:
    """Show the number of calls, outcomes and durations of each tool."""
    context = _build_context(TableChoice.read("tools", request.GET))
    return render(request, "calls/statistics.html", {"page": "tools", "title": "Tools", "first": "Tool", **context})


@require_GET
@needs()
def agents(request: HttpRequest) -> HttpResponse:
    """Show the same numbers for each agent."""
    context = _build_context(TableChoice.read("agents", request.GET))
    return render(request, "calls/statistics.html", {"page": "agents", "title": "Agents", "first": "Agent", **context})


def _build_context(choice: TableChoice) -> dict[str, Any]:
    table, order = choice.compute(), choice.order
    links = [(name, label, urlencode({"range": choice.range, "sort": name})) for name, label in SORT_LABELS.items()]
    return table.footer | {
        "rows": table.rows, "order": order, "range": choice.range,
        "ranges": [(name, label, urlencode({"range": name, "sort": order})) for name, label in RANGE_LABELS.items()],
        "orders": links, "board": urlencode({"board": choice.page, "range": choice.range, "sort": order}),
        "any": bool(table.call_count) or ToolCall.objects.exists(),
    }  # fmt: skip
