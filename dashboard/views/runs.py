"""The runs: a table of them all, and each one's page with its cards in order or its timeline."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard import addresses, pages
from dashboard.drawing import steps
from dashboard.filters import STATUSES, RunFilters
from dashboard.views.guards import needs
from toolcards.models import Run, ToolCall


@require_GET
@needs()
def runs(request: HttpRequest) -> HttpResponse:
    """All runs, newest first."""
    query = request.META.get("QUERY_STRING", "")
    filters = RunFilters.read(query)
    before = number(request, "before")
    rows, more = pages.run_rows(filters, before=before)
    agents = Run.objects.exclude(agent="").order_by("agent").values_list("agent", flat=True).distinct()[:50]
    context = {"filters": filters, "rows": rows, "more": more, "before": before, "agents": agents, "statuses": STATUSES}
    return render(request, "runs/runs.html", context)


@require_GET
@needs()
def run(request: HttpRequest, name: str) -> HttpResponse:
    """One run: its newest calls, an older page of them, or its timeline."""
    found = Run.objects.named(name)
    if found is None:
        raise Http404("There is no such run.")
    before, tab = number(request, "before"), request.GET.get("tab", "")
    context = pages.run_head(found) | {"tab": tab, "before": before, "socket": addresses.run_socket(name)}
    if tab == "timeline":
        around = number(request, "around")
        context |= pages.timeline(found, around) | {"around": around}
    elif tab == "steps":
        context |= steps.of_run(found)
    else:
        calls = pages.run_window(found.pk, before=before)
        first = calls[0].ordinal if calls else 0
        older = first and ToolCall.objects.shown().filter(run=found, ordinal__lt=first).exists()
        context |= {"calls": calls, "older": first if older else 0}
    return render(request, "runs/run.html", context)


def number(request: HttpRequest, name: str) -> int:
    """Return a number of the query; 0 for everything else."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else 0
