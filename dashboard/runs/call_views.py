"""The pages of calls: the list with filters, and each call with complete bodies and its log."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from dashboard import url_helpers
from dashboard.accounts.access import needs
from dashboard.cards import labels, rendering
from dashboard.cards.payloads import media
from dashboard.cards.trace import event_log
from dashboard.runs import saved_filters, tables
from dashboard.runs.filters import NO_RESULT, NO_RESULT_WORD, CallFilters
from dashboard.runs.views import read_query_number
from toolcards.core.calls.card import KINDS
from toolcards.models import ToolCall

NO_RESULT_OPTION = (NO_RESULT, NO_RESULT_WORD)


@require_GET
@needs()
def calls(request: HttpRequest) -> HttpResponse:
    """List all calls, newest first."""
    filters = CallFilters.read(request.META.get("QUERY_STRING", ""))
    before = read_query_number(request, "before")
    page = tables.list_calls(filters, before=before)
    context = {
        "filters": filters, "calls": tables.choose_forms(page.calls), "before": before, "kinds": KINDS,
        "most_cards": tables.MOST_CARDS,
        "states": [*((str(state), label.word) for state, label in labels.STATE_LABELS.items()), NO_RESULT_OPTION],
        "more": page.more, "searched": page.searched, "names": tables.list_filter_names(),
        "any": bool(page.calls) or ToolCall.objects.exists(),
        "saved": saved_filters.list_saved_filters(request, "calls", filters),
    }  # fmt: skip
    return render(request, "calls/calls.html", context)


@require_GET
@needs()
def call(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Show one call with its complete log."""
    rows = ToolCall.objects.not_removed().select_related("run", "run__source")
    call_row = get_object_or_404(rows, run_id=run, ordinal=ordinal)
    socket = url_helpers.build_run_socket_url(call_row.run, call=ordinal)
    return render(
        request, "calls/call.html", {"call": call_row, "story": event_log.list_event_lines(call_row), "socket": socket}
    )


@require_GET
@needs()
def show_card(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Return the card of a call.

    The page of its run shows it as one line.
    """
    rows = ToolCall.objects.not_removed().select_related("run", "run__source")
    call_row = get_object_or_404(rows, run_id=run, ordinal=ordinal)
    return HttpResponse(rendering.render_for_reader(call_row, token=get_token(request), back=call_row.run.url))


@require_GET
@needs()
def picture(request: HttpRequest, run: int, ordinal: int, part: str, number: int) -> HttpResponse:
    """Serve a picture of a call; its bytes determine the type."""
    rows = ToolCall.objects.not_removed().select_related("run", "run__source")
    card = get_object_or_404(rows, run_id=run, ordinal=ordinal).as_shown_card()
    pictures = media.list_pictures({"in": card.input, "out": card.output}.get(part))
    try:
        content, media_type = media.decode_picture(pictures[number])
    except (IndexError, ValueError) as error:
        raise Http404("no such picture") from error
    headers = {
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return HttpResponse(content, content_type=media_type, headers=headers)
