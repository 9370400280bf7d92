"""The Tools and Agents pages: one row of numbers for each tool or agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.accounts.access import needs
from dashboard.runs import call_statistics
from dashboard.runs.call_statistics import RANGES, SORT_ORDERS, CallStatistics
from toolcards.models import ToolCall

MAX_ROWS = 200
DEFAULT_RANGE = "24h"
COLUMNS = {"tools": "tool", "agents": "run__agent"}
RANGE_LABELS = {"1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "all": "All"}
SORT_LABELS = {
    "calls": "Calls", "failed": "Failed", "p50": "Median", "p95": "p95", "approvals": "Asked", "denied": "Denied",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a page, the highest first; `left_out` more are not shown. `counted`: the number of calls."""

    rows: list[CallStatistics]
    left_out: int
    counted: int

    @property
    def footer(self) -> dict[str, int]:
        """Return what the line below the rows says."""
        return {"counted": self.counted, "limit": call_statistics.MAX_CALLS, "left_out": self.left_out}


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
        groups = call_statistics.fetch_groups(COLUMNS[self.page], timezone.now() - length if length else None)
        rows = call_statistics.compute_statistics(groups, self.order)
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
        "any": bool(table.counted) or ToolCall.objects.exists(),
    }  # fmt: skip
