"""A review opens with its question, says so on the card, and holds back the notifications for a while."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.reviewers import NAME, answer_review, build_policy, fail_review
from toolcards import gate
from toolcards.core.calls import elicitation
from toolcards.core.calls.card import Card, CardTool
from toolcards.core.policy.rule import AskTerms
from toolcards.gate.questions.reviews import find_reviewer
from toolcards.models import Approval, Review, Source, ToolCall
from toolcards.models.notifications import Delivery, Webhook
from toolcards.notifications import subscriptions

pytestmark = pytest.mark.django_db(transaction=True)


def ask(source: Source, call: str = "c", command: str = "make report") -> None:
    gate.decide(source, gate.DecisionRequest("r", call, "bash", {"command": command}, place=call))


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_review_is_opened_with_its_question(source: Source, policy: Any, an_approver: Any, mode: str) -> None:
    policy(build_policy({"mode": mode}))
    ask(source)
    review, card = Review.objects.get(), ToolCall.objects.get().as_card()
    assert card.approval is not None and review.approval_id == card.approval.id
    assert (review.reviewer, review.is_shadow, review.state) == (NAME, mode == "shadow", "open")
    assert review.args_sha256 == card.approval.args_sha256 and len(review.call_sha256) == 64
    assert card.approval.terms.get("review") == (NAME if mode == "enforce" else None)


@pytest.mark.parametrize(
    "document",
    [
        build_policy(effect="deny"),
        build_policy() | {"rules": [{"effect": "ask", "match": {"tool": "bash"}}]},
        build_policy() | {"rules": [{"effect": "allow", "match": {"tool": "bash"}}]},
    ],
)
def test_other_calls_are_not_reviewed(source: Source, policy: Any, an_approver: Any, document: dict[str, Any]) -> None:
    policy(document)
    ask(source)
    assert not Review.objects.exists()


def test_a_question_of_two_rules_is_reviewed_if_both_name_the_reviewer(
    source: Source, policy: Any, an_approver: Any
) -> None:
    first = build_policy()
    policy(first | {"rules": [*first["rules"], first["rules"][0] | {"id": "too"}]})
    ask(source)
    assert Review.objects.count() == 1
    policy(first | {"rules": [*first["rules"], {"id": "other", "effect": "ask", "match": {"tool": "bash"}}]})
    ask(source, "d")
    assert Review.objects.count() == 1 and Approval.objects.filter(state="pending").count() == 2


def test_a_form_is_for_people_alone(policy: Any) -> None:
    policy(build_policy())
    form, call = Card("c", tool=CardTool(elicitation.TOOL)), Card("c", tool=CardTool("bash"))
    assert find_reviewer(form, AskTerms(review=NAME)) is None
    assert find_reviewer(call, AskTerms(review=NAME)) is not None
    assert find_reviewer(call, AskTerms()) is find_reviewer(call, None) is None


def test_people_are_notified_when_the_reviewer_left_the_question_to_them(
    source: Source, policy: Any, an_approver: Any
) -> None:
    Webhook.objects.create(name="chat", url="https://a.example/", events='["approval.requested"]')
    subscriptions.clear_cache()
    policy(build_policy({"timeout": 60}))
    ask(source)
    delivery = Delivery.objects.get()
    assert delivery.next_at > time.time() + 50 and delivery.decoded_payload["review"]["by"] == NAME
    fail_review()
    assert Delivery.objects.get().next_at <= time.time()
    ask(source, "d")
    answer_review("allow")
    delivery = Delivery.objects.latest("pk")
    assert (delivery.state, delivery.error) == ("dropped", "The reviewer answered.")
