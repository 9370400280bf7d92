"""Records the outcome of a call without a result, from a form or as JSON."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST

from dashboard.accounts.access import VOTE, api, body_of, by_body, fault, needs
from dashboard.cards.safe_text import mark_text
from dashboard.form_fields import join_errors
from dashboard.inbox.views import (
    HttpResponseSeeOther,
    find_return_path,
    is_htmx_request,
    render_fresh_card,
    render_rejected_vote,
)
from toolcards import gate
from toolcards.core.calls.call_json import build_call_json
from toolcards.gate import ManualOutcome, RequestRefused
from toolcards.models import ToolCall


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


def _find_call(run: int, ordinal: int) -> ToolCall | None:
    rows = ToolCall.objects.not_removed().select_related("run", "run__source")
    return rows.filter(run=run, ordinal=ordinal).first()
