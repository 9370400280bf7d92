"""The pages of runs: the table, and each run with its cards, its timeline or its steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from dashboard import url_helpers
from dashboard.accounts.access import needs
from dashboard.cards import labels, rendering
from dashboard.cards.rendering import CardForm
from dashboard.cards.timeline.timeline import build_timeline
from dashboard.cards.timeline.zoom import TimeWindow
from dashboard.cards.trace import step_log
from dashboard.runs import narration, saved_filters, tables
from dashboard.runs.narration import TextBlock
from dashboard.search.filters import RunFilters
from dashboard.search.search_words import STATUSES, list_run_words
from toolcards.models import AmbiguousRun, Run, Source, ToolCall, decode_run_name

# The calls of a run's page: the newest as cards, older ones as lines, bounded in what the page holds.
PAGE = 80  # lines that a page has room for; a card takes one too, and a block of text two
BLOCK_LINES = 2
MAX_BLOCKS = 150  # newest blocks of text on a page
CARDS = 8  # newest calls, shown as cards
WAITING_CARDS = 10  # older calls that wait for a person, shown as cards; the oldest, which the agent waits for longest


@dataclass(frozen=True, slots=True)
class RunCard:
    """A call on the page of its run; `is_line` if it is shown as one line."""

    call: ToolCall
    is_line: bool

    @property
    def ordinal(self) -> int:
        """Return the call's place in the run."""
        return self.call.ordinal

    @property
    def form(self) -> CardForm:
        """Return how the page shows the call."""
        return CardForm.LINE if self.is_line else CardForm.CARD


@dataclass(frozen=True, slots=True)
class RunPage:
    """What a page of a run shows: calls and blocks of text, oldest first.

    `older`: the ordinal of its first call if there are older ones, else 0.
    """

    cards: list[RunCard]
    blocks: list[TextBlock]
    older: int


def build_run_page(
    run: Run, blocks: Iterable[TextBlock] = (), *, before: int = 0, with_removed: bool = False
) -> RunPage:
    """Return the run's newest calls with the text between them.

    `before`: only calls with lower ordinals. `with_removed`: also those that were removed. The source of `run`
    must be loaded. Cards that were rendered before are not decrypted.
    """
    rows = ToolCall.objects.filter(run=run)
    rows = rows if with_removed else rows.filter(removed=False)
    newest = (rows.filter(ordinal__lt=before) if before else rows).order_by("-ordinal")
    calls = list(reversed(newest.defer("card", "text")[: PAGE + 1]))
    page_blocks = [block for block in blocks if not before or block.after < before - 1]
    page_calls = calls[_find_first(calls, page_blocks) :]
    first = page_calls[0].ordinal if page_calls else 0
    lines = choose_lines(page_calls)
    loaded_calls = rendering.load_for_rendering(page_calls, lines)
    for call in loaded_calls:
        call.run = run
    return RunPage(
        [RunCard(call, call.ordinal in lines) for call in loaded_calls],
        [block for block in page_blocks if block.after >= first - 1][-MAX_BLOCKS:],
        first if len(page_calls) < len(calls) else 0,
    )


def _find_first(calls: Sequence[ToolCall], blocks: Sequence[TextBlock]) -> int:
    """Return the index of the oldest call for which the page has room."""
    lines_used, texts = 0, len(blocks)
    for index in range(len(calls) - 1, -1, -1):
        while texts and blocks[texts - 1].after >= calls[index].ordinal - 1:
            texts -= 1
            lines_used += BLOCK_LINES
        lines_used += 1
        if lines_used > PAGE:
            return min(index + 1, len(calls) - 1)
    return 0


def choose_lines(calls: Sequence[ToolCall]) -> frozenset[int]:
    """Return the ordinals of the calls that are shown as one line."""
    present = [call for call in calls if not call.removed]
    older = present[:-CARDS]
    waiting = [call.ordinal for call in older if call.waiting][:WAITING_CARDS]
    return frozenset(call.ordinal for call in older) - frozenset(waiting)


def interleave(page: RunPage) -> list[Any]:
    """Return cards and rendered blocks of text in order."""
    blocks = list(page.blocks)
    items: list[RunCard | SafeString] = []
    for card in page.cards:
        while blocks and blocks[0].after < card.ordinal:
            items.append(blocks.pop(0).render())
        items.append(card)
    items += [block.render() for block in blocks]
    return [item for item in items if item]


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
    page = build_run_page(run, texts.blocks.values(), before=before)
    sizes = {"most": PAGE, "whole": CARDS}
    return context | sizes | {"items": interleave(page), "older": page.older}


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
