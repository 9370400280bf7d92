"""From a call to its policy: the explanation of its decision, and a rule suggested from it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy import explanation as reasons
from dashboard.policy.forms import EFFECTS
from dashboard.policy.rules import suggestions
from dashboard.policy.simulation import impact
from toolcards.core.calls.card import Card
from toolcards.models import ToolCall


def _find_call(run: int, ordinal: int) -> ToolCall:
    rows = ToolCall.objects.not_removed().select_related("run", "run__source", "run__source__owner")
    return get_object_or_404(rows, run_id=run, ordinal=ordinal)


@require_GET
@needs()
def explain_call(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Show the rules behind a decision, and what would change without them."""
    call = _find_call(run, ordinal)
    page = "calls/_why.html" if request.headers.get("HX-Request") else "calls/why.html"
    return render(request, page, {"call": call, "why": reasons.explain(call)})


@require_GET
@needs(EDIT_POLICY)
def suggest_rule(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Show how broad a rule can be and what it would change.

    After every choice, htmx requests only the last part.
    """
    call = _find_call(run, ordinal)
    card = call.as_card()
    choices = request.GET.dict()
    context: dict[str, Any] = {"call": call, "blast": _estimate_impact(call, card, choices)}
    if request.headers.get("HX-Request"):
        return render(request, "calls/_rule_blast.html", context)
    agent, steps = suggestions.get_agent_name(call, card), suggestions.suggest_rules(card)
    context |= {
        "ladder": suggestions.count_matches(steps, agent, call), "agent": agent, "effects": EFFECTS,
        "scopes": suggestions.SCOPES, "expiries": suggestions.EXPIRIES,
        "chosen": suggestions.read_choices(choices, card, steps),
    }  # fmt: skip
    return render(request, "calls/rule.html", context)


def _estimate_impact(call: ToolCall, card: Card, choices: dict[str, str]) -> impact.Impact | None:
    """Return what this rule would have changed; None if no rule can be made."""
    if not suggestions.suggest_rules(card):
        return None
    rule = suggestions.build_rule(call, card, choices) | {"id": "this-rule"}
    return impact.estimate_rule_impact(rule, call)
