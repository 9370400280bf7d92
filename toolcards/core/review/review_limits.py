"""When a reviewer may not approve: it can still deny the call, or leave it to people."""

from __future__ import annotations

from typing import Any

from toolcards.core.calls import questions
from toolcards.core.calls.card import Card
from toolcards.core.policy.changes.harm_condition import HarmCondition
from toolcards.core.policy.evaluation_context import EvaluationContext, OverBudget
from toolcards.core.policy.matching.touch_condition import TouchCondition
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.rule import AskTerms
from toolcards.core.policy.truth import FALSE
from toolcards.core.review import review_question
from toolcards.core.risk.assessment import assess_risk

_TOUCHES = TouchCondition((), frozenset({"secrets", "private-address"}), every=False)


def explain_limit(card: Card, visible: Card, request: PolicyRequest, terms: AskTerms, reviewer: str) -> str:
    """Return why only people can approve the call, or "".

    `visible` is the masked card, of which the reviewer sees the call.
    """
    call = review_question.build_call(visible)
    is_high = terms.severity in {"high", "critical"} or assess_risk(card, visible).level == "high"
    if is_high or is_dangerous(request):
        return "This call is high risk, so only people can approve it."
    if max(terms.quorum, terms.deny_quorum) > 1 or terms.reauth or terms.reason == "always":
        return "The rule sets terms that only people can meet."
    if _asks_person(card):
        return "The call asks a question that only people can answer."
    if visible.shown_input != card.shown_input or not card.has_input:
        return "Part of the call is hidden from the reviewer, so only people can approve it."
    if len(review_question.dump_call(call)) > review_question.MAX_SIZE:
        return "The call is too large for the reviewer, so only people can approve it."
    if review_question.addresses_reviewer(call, reviewer):
        return "The call has text for a reviewer, so only people can approve it."
    return ""


def is_dangerous(request: PolicyRequest) -> bool:
    """Return whether the call does harm or may touch secrets.

    A call that is too large to tell counts as dangerous.
    """
    context = EvaluationContext(request)
    try:
        return bool(HarmCondition(frozenset()).actual(context)) or _TOUCHES.check(context, None) is not FALSE
    except OverBudget:
        return True


def _asks_person(card: Card) -> bool:
    name: Any = card.tool.name
    return questions.is_form(name) or bool(questions.read_questions(name, card.input))
