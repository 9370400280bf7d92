"""The pages of calls: the list, each call with its log, and the form for the outcome of a call without a result."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET, require_POST

from dashboard import url_helpers
from dashboard.accounts.access import VOTE, api, body_of, by_body, fault, needs
from dashboard.cards import labels, rendering
from dashboard.cards.payloads import media
from dashboard.cards.safe_text import mark_text
from dashboard.cards.trace import event_log
from dashboard.form_fields import join_errors
from dashboard.inbox.views import (
    HttpResponseSeeOther,
    find_return_path,
    is_htmx_request,
    render_fresh_card,
    render_rejected_vote,
)
from dashboard.runs import saved_filters, tables
from dashboard.runs.views import read_query_number
from dashboard.search.filters import NO_RESULT_WORD, CallFilters
from dashboard.search.search_terms import NO_RESULT
from dashboard.search.search_words import list_filter_names, list_search_words
from toolcards import gate
from toolcards.core.calls.call_json import build_call_json
from toolcards.core.calls.card import KINDS
from toolcards.core.summaries.summary import summarize
from toolcards.gate import ManualOutcome, RefusalAnswer, RequestRefused
from toolcards.models import ToolCall

NO_RESULT_OPTION = (NO_RESULT, NO_RESULT_WORD)


@require_GET
@needs()
def calls(request: HttpRequest) -> HttpResponse:
    """List all calls, newest first."""
    filters = CallFilters.read(request.META.get("QUERY_STRING", ""))
    before = read_query_number(request, "before")
    page = tables.list_calls(filters, before=before)
    names = list_filter_names()
    context = {
        "filters": filters, "calls": tables.choose_forms(page.calls), "before": before, "kinds": KINDS,
        "most_cards": tables.MOST_CARDS,
        "states": [*((str(state), label.word) for state, label in labels.STATE_LABELS.items()), NO_RESULT_OPTION],
        "more": page.more, "searched": page.searched, "names": names,
        "words": list_search_words(names["tools"], names["agents"]),
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
    sentence = summarize(call_row.as_shown_card())
    context = {"call": call_row, "sentence": sentence, "story": event_log.list_event_lines(call_row), "socket": socket}
    return render(request, "calls/call.html", context)


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


class OutcomeForm(forms.Form):
    """The outcome of a call without a result, as a person found out."""

    outcome = forms.ChoiceField(choices=[(name, name) for name in ("succeeded", "failed")])
    rev = forms.IntegerField(min_value=0)
    note = forms.CharField(max_length=2000, required=False)

    def outcome_of(self, run: int, ordinal: int) -> ManualOutcome:
        """Return the outcome for that call."""
        return ManualOutcome(run, ordinal, **self.cleaned_data)


@require_POST
@needs(VOTE)
def _settle_by_form(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    call = _find_call(run, ordinal)
    if call is None:
        raise Http404
    form = OutcomeForm(request.POST)
    if not form.is_valid():
        return render_rejected_vote(request, call, 422, join_errors(form))
    try:
        gate.record_manual_outcome(request.user, form.outcome_of(run, ordinal))
    except RequestRefused as refused:
        return render_rejected_vote(request, _find_call(run, ordinal) or call, refused.status, refused.message)
    if is_htmx_request(request):
        return render_fresh_card(request, _find_call(run, ordinal) or call)
    messages.success(request, f"Outcome recorded: {mark_text(call.tool)} {form.cleaned_data['outcome']}.")
    return HttpResponseSeeOther(find_return_path(request))


@api(VOTE, "POST")
def _settle_by_json(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    try:
        body = body_of(request)
    except (ValueError, RecursionError):
        return fault(400, "not_json", "The body is not JSON.")
    form = OutcomeForm(body if isinstance(body, dict) else {})
    if not form.is_valid():
        return fault(422, "invalid_finding", "Send outcome (succeeded or failed), rev and, optionally, note.")
    try:
        gate.record_manual_outcome(request.user, form.outcome_of(run, ordinal))
    except RequestRefused as refused:
        return fault(refused.status, refused.code, refused.message, **refused.details)
    call = _find_call(run, ordinal)
    assert call is not None
    return JsonResponse({"call": build_call_json(call.as_shown_card(), run=call.run.name, id=call.public_id)})


settle = by_body(_settle_by_form, _settle_by_json)


class RefusalForm(forms.Form):
    """The answer to a call that the agent's own reviewer refused."""

    refusal = forms.ChoiceField(choices=[(name, name) for name in ("retry", "dismiss")])
    rev = forms.IntegerField(min_value=0)


@require_POST
@needs(VOTE)
def answer_refusal(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Let a refused call try again once, or dismiss it."""
    call = _find_call(run, ordinal)
    if call is None:
        raise Http404
    form = RefusalForm(request.POST)
    if not form.is_valid():
        return render_rejected_vote(request, call, 422, join_errors(form))
    may_retry = form.cleaned_data["refusal"] == "retry"
    try:
        gate.answer_refusal(request.user, RefusalAnswer(run, ordinal, may_retry, form.cleaned_data["rev"]))
    except RequestRefused as refused:
        return render_rejected_vote(request, _find_call(run, ordinal) or call, refused.status, refused.message)
    if is_htmx_request(request):
        return render_fresh_card(request, _find_call(run, ordinal) or call)
    words = "may try again once" if may_retry else "is dismissed"
    messages.success(request, f"{mark_text(call.tool)} {words}.")
    return HttpResponseSeeOther(find_return_path(request))


def _find_call(run: int, ordinal: int) -> ToolCall | None:
    rows = ToolCall.objects.not_removed().select_related("run", "run__source")
    return rows.filter(run=run, ordinal=ordinal).first()
