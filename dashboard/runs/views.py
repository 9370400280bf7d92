"""The pages of runs: the table, and each run with its cards, its timeline or its steps."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard import url_helpers
from dashboard.accounts.access import needs
from dashboard.cards import labels
from dashboard.cards.timeline.timeline import build_timeline
from dashboard.cards.timeline.zoom import TimeWindow
from dashboard.cards.trace import step_log
from dashboard.runs import narration, run_cards, saved_filters, tables
from dashboard.search.filters import RunFilters
from dashboard.search.run_terms import STATUSES
from dashboard.search.search_words import list_run_words
from toolcards.models import AmbiguousRun, Run, Source, decode_run_name


@require_GET
@needs()
def runs(request: HttpRequest) -> HttpResponse:
    """List all runs, newest first."""
    query = request.META.get("QUERY_STRING", "")
    filters = RunFilters.read(query)
    before = read_query_number(request, "before")
    rows, more = tables.list_run_rows(filters, before=before)
    agents = Run.objects.exclude(agent="").order_by("agent").values_list("agent", flat=True).distinct()[:50]
    unnamed_runs = Run.objects.filter(source=OuterRef("pk"), agent="")
    unnamed_agents = Source.objects.filter(Exists(unnamed_runs)).values_list("name", flat=True)[:50]
    agent_names = sorted({*agents, *unnamed_agents})
    sources = list(Source.objects.order_by("name").values_list("name", flat=True)[:200])
    context = {
        "filters": filters, "rows": rows, "more": more, "before": before, "agents": agent_names,
        "statuses": [(status, labels.RUN_LABELS[status].word) for status in STATUSES],
        "sources": sources, "words": list_run_words(agent_names, sources),
        "saved": saved_filters.list_saved_filters(request, "runs", filters),
    }  # fmt: skip
    return render(request, "runs/runs.html", context)


@require_GET
@needs()
def run(request: HttpRequest, name: str) -> HttpResponse:
    """Show one run: a page of calls, its timeline or its steps."""
    name, source = decode_run_name(name), request.GET.get("source", "")
    try:
        run_row = Run.objects.only_one(name, source)
    except AmbiguousRun as ambiguous:
        return _render_choice(request, name, ambiguous.runs)
    except Run.DoesNotExist:
        other_runs = list(Run.objects.filter(name=name).select_related("source").order_by("-id")) if source else []
        if not other_runs:
            raise Http404("Run not found.") from None
        return _render_choice(request, name, other_runs, missing_source=source)
    return render(request, "runs/run.html", tables.build_run_header(run_row) | _build_tab(request, run_row))


def _build_tab(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Return the content of the selected tab, and the address of its live socket."""
    tab, before = request.GET.get("tab", ""), read_query_number(request, "before")
    context = {"tab": tab, "before": before}
    if tab == "timeline":
        return context | _build_timeline_tab(request, run)
    live: dict[str, str | int] = {"tab": "head"} if tab else {"since": run.seq}
    context["socket"] = url_helpers.build_run_socket_url(run, **live)
    if tab == "steps":
        return context | step_log.list_trace_lines(run, read_query_number(request, "skip"))
    texts = narration.Narration(run.pk)
    texts.read()
    page = run_cards.build_run_page(run, texts.blocks.values(), before=before)
    sizes = {"most": run_cards.PAGE, "whole": run_cards.CARDS}
    return context | sizes | {"items": run_cards.interleave(page), "older": page.older}


def _build_timeline_tab(request: HttpRequest, run: Run) -> dict[str, Any]:
    around = read_query_number(request, "around")
    window = TimeWindow.read(read_query_number(request, "start"), read_query_number(request, "end"))
    latest = TimeWindow.read_length(read_query_number(request, "latest"))
    as_table = request.GET.get("table", "") == "1"
    live: dict[str, str | int] = {"tab": "head"}
    if latest or not (around or window):
        live = {"tab": "timeline", **({"latest": latest} if latest else {}), **({"table": 1} if as_table else {})}
    socket = url_helpers.build_run_socket_url(run, **live)
    return build_timeline(run, around, window, latest=latest, as_table=as_table) | {"socket": socket}


def _render_choice(request: HttpRequest, name: str, runs: list[Run], missing_source: str = "") -> HttpResponse:
    """List the runs of this name.

    `missing`: the requested source, which has no such run.
    """
    rows = [(tables.build_run_row(run), tables.find_newest_call(run)) for run in runs]
    context = {"name": name, "missing": missing_source, "rows": rows}
    return render(request, "runs/source_choice.html", context, status=404 if missing_source else 200)


def read_query_number(request: HttpRequest, name: str) -> int:
    """Return a number of the query; 0 for other texts."""
    return url_helpers.read_number(request.GET.get(name, "")) or 0
