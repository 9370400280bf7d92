"""A form is filled in by a person or refused: no rule, standing approval or break-glass answers it."""

from __future__ import annotations

from typing import Any

from tests.support.rules import find_effect, policy, rule
from tests.support.tables import loop_over
from toolcards.core.calls import elicitation
from toolcards.core.calls.facts import Actor
from toolcards.core.policy.decision import AskTerms, Effect, PolicyDecision, PolicyRequest
from toolcards.gate.decisions import forms

TOO_MANY = elicitation.MAX_FIELDS + 1
FORM = {
    "message": "Which branch?",
    "requestedSchema": {"type": "object", "properties": {"branch": {"type": "string"}}},
}


def require_answer(decision: PolicyDecision, form: Any = FORM, *, source: str = "git", voters: int = 1) -> Any:
    """Return the decision about a form, and the terms under which voters were counted."""
    counts: list[AskTerms] = []

    def count(terms: AskTerms) -> int:
        counts.append(terms)
        return voters

    request = PolicyRequest.for_tool("elicitation", source=source, input=form)
    return forms.require_answer(decision, request, form, count), counts


def decide(effect: str, **more: Any) -> PolicyDecision:
    match = {"tool": "elicitation"}
    result: PolicyDecision = find_effect(policy(rule(effect, match, **more)), "elicitation", input=FORM)
    return result


@loop_over("source, reason", [("git", forms.REASON), ("", forms.REASON_OF_AGENT)])
def test_what_a_rule_allows_is_asked_under_the_terms_of_forms(source: str, reason: str) -> None:
    decision, counts = require_answer(decide("allow"), source=source)
    assert (decision.effect, decision.code, decision.reason) == (Effect.ASK, "question", reason)
    assert (decision.rule, decision.rules, decision.grants, decision.by) == ("", (), (), Actor("default"))
    assert decision.ask == forms.TERMS and counts == [forms.TERMS]
    assert decision.ask.allow_requester and decision.ask.grants == ("once",) and decision.ask.editable == ()
    assert decision.version == 7


def test_what_the_default_asks_is_asked_under_the_terms_of_forms_too() -> None:
    question = find_effect(policy(default="ask"), "elicitation", input=FORM)
    assert question.effect is Effect.ASK and not question.rules
    decision, _ = require_answer(question)
    assert (decision.code, decision.ask) == ("question", forms.TERMS)


def test_the_terms_of_a_rule_that_asks_stay() -> None:
    question = decide("ask", ask={"quorum": 2})
    decision, counts = require_answer(question, voters=2)
    assert decision == question and decision.ask is not None and decision.ask.quorum == 2
    assert [terms.quorum for terms in counts] == [2]


def test_a_form_that_no_one_may_answer_is_denied() -> None:
    decision, _ = require_answer(decide("allow"), voters=0)
    assert (decision.effect, decision.ask) == (Effect.DENY, None)


@loop_over("form", [
    None, [], "text", {}, {"requestedSchema": {"type": "object", "properties": {"a": {"type": "of tomorrow"}}}},
    {"requestedSchema": {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(TOO_MANY)}}},
])  # fmt: skip
def test_a_form_that_cannot_be_shown_is_refused_whatever_policy_says(form: Any) -> None:
    for effect in ("allow", "ask"):
        decision, counts = require_answer(decide(effect), form)
        assert (decision.effect, decision.code, decision.ask, counts) == (Effect.DENY, "invalid_args", None, [])
        assert (decision.by, decision.reason) == (Actor("validation"), forms.UNREADABLE)
