"""The Tools and Agents pages: one row of numbers for each tool or agent."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.accounts.access import needs
from dashboard.runs import call_statistics
from dashboard.runs.call_statistics import RANGES, SORT_ORDERS
from toolcards.models import ToolCall

MAX_ROWS = 200
DEFAULT_RANGE = "24h"
RANGE_LABELS = {"1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "all": "All"}
SORT_LABELS = {
    "calls": "Calls", "failed": "Failed", "p50": "Median", "p95": "p95", "approvals": "Asked", "denied": "Denied",
}  # fmt: skip


@require_GET
@needs()
def tools(request: HttpRequest) -> HttpResponse:
    """Show the number of calls, outcomes and durations of each tool."""
    context = _build_table(request, "tool")
    return render(request, "calls/statistics.html", {"page": "tools", "title": "Tools", "first": "Tool", **context})


@require_GET
@needs()
def agents(request: HttpRequest) -> HttpResponse:
    """Show the same numbers for each agent."""
    context = _build_table(request, "run__agent")
    return render(request, "calls/statistics.html", {"page": "agents", "title": "Agents", "first": "Agent", **context})


def _build_table(request: HttpRequest, column: str) -> dict[str, Any]:
    range_name = request.GET.get("range", "")
    range_name = range_name if range_name in RANGES else DEFAULT_RANGE
    order = request.GET.get("sort", "")
    order = order if order in SORT_ORDERS else "calls"
    length = RANGES[range_name]
    groups = call_statistics.fetch_groups(column, timezone.now() - length if length else None)
    links = [(name, label, urlencode({"range": range_name, "sort": name})) for name, label in SORT_LABELS.items()]
    counted = sum(group.calls for group in groups)
    rows = call_statistics.compute_statistics(groups, order)
    return {
        "rows": rows[:MAX_ROWS], "left_out": len(rows) - MAX_ROWS if len(rows) > MAX_ROWS else 0, "order": order,
        "range": range_name, "counted": counted, "limit": call_statistics.MAX_CALLS,
        "ranges": [(name, label, urlencode({"range": name, "sort": order})) for name, label in RANGE_LABELS.items()],
        "orders": links, "any": bool(groups) or ToolCall.objects.exists(),
    }  # fmt: skip
