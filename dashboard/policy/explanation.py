"""Why a call was decided as it was: the rules of that version, the decision without each of them, and its page.

From there people also make a rule that is suggested from the call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.cards import labels
from dashboard.policy import dry_run
from dashboard.policy.forms import EFFECTS
from dashboard.policy.rules import call_rule, suggestions
from dashboard.policy.simulation import impact
from dashboard.policy.simulation.past_calls import request_for_call
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import RuleSet, decide
from toolcards.core.summaries.summary import summarize
from toolcards.gate import policy_store
from toolcards.models import PolicyVersion, ToolCall


@dataclass(frozen=True, slots=True)
class RuleRemoval:
    """The decision of the same version without one of its rules."""

    rule: str
    effect: str
    reason: str
    changes: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision, its author, and its trace; `trial` is None if the version is unknown."""

    answer: str
    by: str
    reason: str
    suggest: str
    version: int
    trial: dry_run.Trial | None
    without: list[RuleRemoval]
    now: dry_run.Trial | None  # the decision of the active version, if it is another one
    now_version: int
    complete: bool
    recorded: str

    @property
    def differs(self) -> bool:
        """Return whether the rules alone decide differently from the record."""
        return self.trial is not None and self.trial.effect != self.recorded


def explain(call: ToolCall) -> Explanation:
    """Return the explanation; the call's run and source must be loaded."""
    card = call.as_card()
    verdict, card_shown = card.decision, call.as_shown_card()
    decision = card_shown.decision
    answer = _describe_answer(card)
    is_overruled = answer == "denied" and (decision is None or decision.effect != "deny")
    question = request_for_call(call, card)
    version = PolicyVersion.objects.filter(number=verdict.version).first() if verdict else None
    active = PolicyVersion.objects.filter(active=True).first()
    policy = _load_policy(version)
    newer = active if active and version and active.pk != version.pk else None
    today = _load_policy(newer)
    return Explanation(
        answer=answer,
        by=_describe_actor(card),
        reason=card_shown.denied if is_overruled else decision.reason if decision else "",
        suggest=decision.suggest if decision and not is_overruled else "",
        version=version.number if version else 0,
        trial=dry_run.try_call(policy, question) if policy else None,
        without=_list_removals(policy, call, card) if policy else [],
        now=dry_run.try_call(today, question) if today else None,
        now_version=newer.number if newer and today else 0,
        complete=question.has_input,
        recorded=verdict.effect if verdict else "",
    )


def _load_policy(version: PolicyVersion | None) -> RuleSet | None:
    """Return the version's policy; None without one, or if it is unreadable."""
    try:
        return policy_store.compile_version(version) if version else None
    except policy_store.UnreadablePolicy:
        return None


def _describe_answer(card: Card) -> str:
    if card.denied_by or str(card.state) == "output-denied":
        return "denied"
    if card.waiting:
        return "ask"
    return {"allow": "allowed", "deny": "denied", "ask": "ask"}.get(
        card.decision.effect if card.decision else "", "not judged"
    )


def _describe_actor(card: Card) -> str:
    actor = card.denied_by or (card.approval.by if card.approval and card.approval.by else None)
    return labels.describe_actor(actor or (card.decision.by if card.decision else None))


def _list_removals(policy: RuleSet, call: ToolCall, card: Card) -> list[RuleRemoval]:
    question = request_for_call(call, card)
    decision = decide(policy, question)
    removals = []
    for name in decision.rules:
        less = replace(policy, rules=tuple(rule for rule in policy.rules if rule.id != name))
        other_decision = decide(less, question)
        removals.append(
            RuleRemoval(
                name, str(other_decision.effect), other_decision.reason, other_decision.effect is not decision.effect
            )
        )
    return removals


def _find_call(run: int, ordinal: int) -> ToolCall:
    rows = ToolCall.objects.not_removed().select_related("run", "run__source", "run__source__owner")
    return get_object_or_404(rows, run_id=run, ordinal=ordinal)


@require_GET
@needs()
def explain_call(request: HttpRequest, run: int, ordinal: int) -> HttpResponse:
    """Show the rules behind a decision, and what would change without them."""
    call = _find_call(run, ordinal)
    page = "calls/_explanation.html" if request.headers.get("HX-Request") else "calls/explanation.html"
    return render(request, page, {"call": call, "why": explain(call), "summary": summarize(call.as_shown_card())})


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
        return render(request, "calls/_rule_impact.html", context)
    agent, steps = call_rule.get_agent_name(call, card), suggestions.suggest_rules(card)
    context |= {
        "ladder": suggestions.count_matches(steps, agent, call), "agent": agent, "effects": EFFECTS,
        "scopes": call_rule.SCOPES, "expiries": call_rule.EXPIRIES,
        "chosen": call_rule.read_choices(choices, card, steps),
    }  # fmt: skip
    return render(request, "calls/rule.html", context)


def _estimate_impact(call: ToolCall, card: Card, choices: dict[str, str]) -> impact.Impact | None:
    """Return what this rule would have changed; None if no rule can be made."""
    if not suggestions.suggest_rules(card):
        return None
    rule = call_rule.build_rule(call, card, choices) | {"id": "this-rule"}
    return impact.estimate_rule_impact(rule, call)
