"""The inbox pages: waiting calls, single approvals, and the only view that takes votes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, render
from django.utils.functional import SimpleLazyObject
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import sign_in_log
from dashboard.accounts.access import VOTE, needs
from dashboard.cards import rendering
from dashboard.cards.rendering import PageState
from dashboard.cards.safe_text import mark_text
from dashboard.form_fields import join_errors
from dashboard.inbox import groups, history, order
from dashboard.inbox.forms import ANSWER, BallotForm, cast_vote, check_lasting_answer, convert_answers
from dashboard.inbox.queue_filters import list_filter_links, read_filters
from toolcards import gate
from toolcards.core.summaries.summary import summarize
from toolcards.gate import RequestRefused
from toolcards.models import Approval, Run, Source, ToolCall
from toolcards.models.prepared_selects import PreparedSelect

MAX_CARDS = 200  # articles on the page
DAY = 86_400.0  # seconds
MAX_NAMES = 5  # of calls in a message

# Compiled once: each vote reads its call, and composing this statement takes longer than the remaining request.
_CALL_OF_APPROVAL = PreparedSelect(
    ToolCall, "WHERE id = (SELECT call_id FROM toolcards_approval WHERE toolcards_approval.id = %s AND asked)"
)
_RUN, _SOURCE = PreparedSelect(Run, "WHERE id = %s"), PreparedSelect(Source, "WHERE id = %s")


class HttpResponseSeeOther(HttpResponseRedirect):
    """The redirect after a plain form that changed something."""

    status_code = 303


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """The header's numbers: waiting calls, the time of the oldest, and blocked runs."""

    count: int
    oldest: float | None
    blocked: int


@require_GET
@needs()
def inbox(request: HttpRequest) -> HttpResponse:
    """Show all waiting calls, by risk and then by age."""
    waiting_calls = list(ToolCall.objects.waiting().select_related("run", "run__source")[:MAX_CARDS])
    filters = read_filters(request.META["QUERY_STRING"])
    calls = [call for call in waiting_calls if filters.says(call)] if filters.q else waiting_calls
    context = {
        "filters": filters,
        "links": list_filter_links(waiting_calls, filters),
        "levels": order.group_by_risk(calls),
        "shown": PageState.write_calls(calls),
        "queue": summarize_queue(),
        "reasons": groups.list_recent_reasons(),
        "unheard": len(history.find_calls_without_outcome(time.time() - DAY)),
        **groups.build_groups_context(calls),
        "last": Approval.objects.filter(asked=True, by_kind="human").order_by("-decided_at").first(),
    }
    return render(request, "approvals/inbox.html", context)


def summarize_queue() -> QueueSummary:
    """Return the numbers in the inbox's header."""
    rows = ToolCall.objects.waiting()
    oldest = rows.values_list("requested_at", flat=True).first()
    age = max(0.0, time.time() - oldest.timestamp()) if oldest else None
    counts = rows.order_by().aggregate(calls=Count("pk"), runs=Count("run", distinct=True))
    return QueueSummary(counts["calls"], age, counts["runs"])


@require_GET
@needs()
def approval(request: HttpRequest, pk: str) -> HttpResponse:
    """Show the card of one approval; the address can be shared."""
    approval = get_object_or_404(Approval.objects.select_related("call", "run", "run__source"), pk=pk, asked=True)
    call = approval.call
    sentence = summarize(call.as_shown_card())
    context = {"approval": approval, "call": call, "sentence": sentence, "reasons": groups.list_recent_reasons()}
    return render(request, "approvals/approval.html", context)


# ---------------------------------------------------------------- answering


@require_POST
@needs(VOTE)
def vote(request: HttpRequest, pk: str) -> HttpResponse:
    """Cast this person's vote for what their page showed."""
    form = BallotForm(request.POST)
    if not form.is_valid():
        return _render_rejected(request, pk, 422, join_errors(form))
    try:
        ballot = form.ballot(pk, signed_in_at=sign_in_log.get_sign_in_time(request))
        if ballot.decision == ANSWER:
            ballot = convert_answers(ballot, _find_call(pk), request.POST)
        if ballot.always:
            check_lasting_answer(request, ballot, _find_call(pk))
        cast_vote(request, ballot)
    except RequestRefused as refused:
        return _render_rejected(request, pk, refused.status, refused.message)
    if is_htmx_request(request):
        return _render_card(request, pk)
    call = _find_call(pk)
    messages.success(request, f"{_describe_vote(call)}: {mark_text(call.tool)}.")
    return HttpResponseSeeOther(find_return_path(request))


def _describe_vote(call: ToolCall) -> str:
    """Return the result of a vote that counted."""
    ask = call.as_card().approval
    if call.waiting and ask is not None:
        return f"Vote counted, {ask.have} of {ask.terms.get('need', 1)} approvals so far"
    return "Denied" if call.state == "output-denied" else "Approved"


@require_POST
@needs(VOTE)
def undo(request: HttpRequest, pk: str) -> HttpResponse:
    """Revoke an approval that the agent has not received."""
    try:
        answer = gate.revoke_approval(request.user, pk)
    except RequestRefused as refused:
        return _render_rejected(request, pk, refused.status, refused.message)
    more = _describe_siblings(answer)
    if is_htmx_request(request):
        notice = f"Undone. The call is denied. {more}" if more else ""
        return render_fresh_card(request, _find_call(pk), notice=notice)
    messages.success(request, f"Approval revoked: {mark_text(_find_call(pk).tool)}. {more}".strip())
    return HttpResponseSeeOther(find_return_path(request))


def _describe_siblings(answer: gate.Revocation) -> str:
    """Return what became of the calls that the undone lasting answer had allowed."""
    parts = []
    if answer.recalled_calls:
        names = ", ".join(mark_text(name) for name in answer.recalled_calls[:MAX_NAMES])
        more = f" and {len(answer.recalled_calls) - MAX_NAMES} more" if len(answer.recalled_calls) > MAX_NAMES else ""
        parts.append(f"Also denied, since its rule had allowed them: {names}{more}.")
    if answer.late_count:
        parts.append(f"Too late for {answer.late_count} that it had allowed: the agent has the answer.")
    return " ".join(parts)


def _render_rejected(request: HttpRequest, pk: str, status: int, message: str) -> HttpResponse:
    return render_rejected_vote(request, _find_call(pk), status, message)


def _render_card(request: HttpRequest, pk: str) -> HttpResponse:
    return render_fresh_card(request, _find_call(pk))


def render_rejected_vote(request: HttpRequest, call: ToolCall, status: int, message: str) -> HttpResponse:
    """Explain why a vote did not count, with the current card."""
    if is_htmx_request(request):
        return render_fresh_card(request, call, notice=message, status=status)
    context = {"call": call, "message": message, "status": status, "next": find_return_path(request)}
    return render(request, "approvals/rejected.html", context, status=status)


def render_fresh_card(request: HttpRequest, call: ToolCall, *, notice: str = "", status: int = 200) -> HttpResponse:
    """Return the current card, which htmx swaps in."""
    return HttpResponse(render_fresh_html(request, call, notice=notice), status=status)


def render_fresh_html(request: HttpRequest, call: ToolCall, *, notice: str = "") -> str:
    """Return the HTML of the current card.

    The form token is made only for a card with a form.
    """
    token: Any = SimpleLazyObject(lambda: get_token(request))
    return rendering.render_for_reader(call, token=token, notice=notice)


def _find_call(pk: str) -> ToolCall:
    call = _CALL_OF_APPROVAL.fetch_first(pk)
    run = _RUN.fetch_first(call.run_id) if call else None
    source = _SOURCE.fetch_first(run.source_id) if run else None
    if call is None or run is None or source is None:
        raise Http404
    run.source, call.run = source, run
    return call


def is_htmx_request(request: HttpRequest) -> bool:
    """Return whether htmx sent the request and expects a card."""
    return request.META.get("HTTP_HX_REQUEST") == "true"  # `headers` would read all of them


def find_return_path(request: HttpRequest) -> str:
    """Return the path that a plain form returns to.

    The path in its `next` field, else the page it was sent from, if that is a page of this server.
    """
    next_url = request.POST.get("next", "")
    if next_url.startswith("/") and url_has_allowed_host_and_scheme(next_url, allowed_hosts=None):
        return next_url
    page = urlsplit(request.headers.get("Referer", ""))
    if page.netloc != request.get_host() or page.path.endswith(("/vote", "/undo", "/votes", "/settle", "/refusal")):
        return "/approvals/"
    return page._replace(scheme="", netloc="", path="/" + page.path.lstrip("/"), fragment="").geturl()
