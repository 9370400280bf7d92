"""The page of suggestions from the record, and the presses that write their rules and take them back."""

from __future__ import annotations

from django.contrib import messages
from django.db import transaction
from django.db.models import Max
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.cards import rendering
from dashboard.cards.card_view import CardView
from dashboard.cards.lasting_offers import FIELDS
from dashboard.cards.safe_text import mark_text
from dashboard.policy.record.rule_findings import list_findings
from dashboard.policy.record.suggestions import LEAST, list_suggestions
from dashboard.policy.simulation.past_calls import Span, iterate_past_calls
from dashboard.policy.views import handle_unreadable_version
from toolcards.core.calls.card import ToolCallState
from toolcards.core.policy.decision import Effect, PolicyRequest, RuleSet, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.lasting.answers import LastingAnswer, list_candidates
from toolcards.gate import RequestRefused, lasting_answers, policy_store
from toolcards.models import ToolCall

# How many of the latest calls of a source each lasting answer to a question covers.
LOOKED_AT = Span(calls=300, days=30)
_NEWEST_ROWS = 5_000  # rows of the table in which the calls of the source are looked for


def describe_coverage(call: ToolCall) -> dict[str, str]:
    """Return how many past calls each lasting answer covers, in words."""
    question = next(
        (each.question for each in iterate_past_calls(LOOKED_AT, ToolCall.objects.filter(pk=call.pk))), None
    )
    if question is None:
        return {}
    newest = ToolCall.objects.aggregate(newest=Max("id"))["newest"] or 0
    rows = ToolCall.objects.not_removed().filter(run__source=call.run.source_id, id__gt=newest - _NEWEST_ROWS)
    past_calls = iterate_past_calls(LOOKED_AT, rows.exclude(pk=call.pk))
    requests = [each.question for each in past_calls if each.question is not None]
    return {answer.value: _describe_count(answer, requests) for answer in list_candidates(question)}


def _describe_count(answer: LastingAnswer, requests: list[PolicyRequest]) -> str:
    policy = parse({"default": "ask", "rules": [answer.build_rule(Effect.ALLOW)]})
    count = sum(1 for request in requests if decide(policy, request).effect is Effect.ALLOW)
    return f"{count:,} of {len(requests):,} past calls"


@require_GET
@needs(EDIT_POLICY)
@handle_unreadable_version
def suggestions(request: HttpRequest) -> HttpResponse:
    """Show what the record suggests about the active policy."""
    return _render(request)


def _render(request: HttpRequest, *, error: str = "", status: int = 200) -> HttpResponse:
    policy = _load_active_policy()
    written_id = request.GET.get("rule", "")
    ids = {rule.id for rule in policy.rules} if policy else set()
    context = {
        "suggestions": list_suggestions(policy) if policy else [], "findings": list_findings(policy) if policy else [],
        "least": LEAST, "error": error,
        "undo_rule": written_id if _is_lasting(written_id) and written_id in ids else "",
    }  # fmt: skip
    return render(request, "policy/suggestions.html", context, status=status)


def _is_lasting(rule_id: str) -> bool:
    return rule_id.startswith("always-")


def _load_active_policy() -> RuleSet | None:
    try:
        return policy_store.get_active_policy()
    except policy_store.UnreadablePolicy:
        raise
    except policy_store.NoActivePolicy:
        return None


@require_GET
@needs(EDIT_POLICY)
def covered(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Show the lasting answers with the past calls that each covers."""
    call = get_object_or_404(ToolCall.objects.not_removed().select_related("run"), run=run, ordinal=ordinal)
    view, field = CardView(call.as_shown_card(), call=call), request.GET.get("field", "")
    if field not in FIELDS or view.card.state is not ToolCallState.APPROVAL_REQUESTED:
        raise Http404
    offers = view.get_lasting_offers(field, describe_coverage(call))
    return HttpResponse(rendering.render_lasting_choices(offers, field))


@require_POST
@needs(EDIT_POLICY)
@handle_unreadable_version
def accept_suggestion(request: HttpRequest) -> HttpResponse:
    """Activate the rule of a suggestion that the record still supports."""
    policy, rule_id = _load_active_policy(), request.POST.get("rule", "")
    suggestion = next((each for each in list_suggestions(policy) if each.rule_id == rule_id), None) if policy else None
    if suggestion is None:
        message = "The record no longer supports this suggestion. Nothing was changed."
        return _render(request, error=message, status=409)
    newest, answer = suggestion.newest, suggestion.answer
    card = ToolCall.objects.get(pk=newest.pk).as_card()
    try:
        with transaction.atomic():
            written_id, version = lasting_answers.write_rule(
                newest.request, card, request.user, answer.value, is_approved=True, evidence=suggestion.evidence
            )
    except RequestRefused as refused:
        return _render(request, error=refused.message, status=refused.status)
    if written_id:
        text = "Won’t ask again for {} ({}): rule {}, policy version {}."
        names = (mark_text(answer.words), mark_text(suggestion.whose))
        messages.success(request, format_html(text, *names, written_id, version))
    return redirect(f"{reverse('policy-suggestions')}?rule={written_id}")


@require_POST
@needs(EDIT_POLICY)
@handle_unreadable_version
def undo_suggestion(request: HttpRequest) -> HttpResponse:
    """Remove the rule that a suggestion wrote."""
    rule_id = request.POST.get("rule", "")
    try:
        with transaction.atomic():
            was_active = _is_lasting(rule_id) and lasting_answers.remove_rule(
                rule_id, request.user, "the suggestion was undone"
            )
    except (RequestRefused, policy_store.NoActivePolicy) as refused:
        return _render(request, error=str(refused), status=409)
    if not was_active:
        return _render(request, error="This rule is no longer in the active policy.", status=409)
    messages.success(request, format_html("Rule {} is removed. Such calls are asked about again.", rule_id))
    return redirect("policy-suggestions")
