"""Answers of reviewers next to those of people: only calls that both answered are compared."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from dashboard.policy.reviewers.comparison import compare_with_people, count_reviews, read_answer_of_person
from tests.support.gate_commands import make_ballot
from tests.support.reviewers import NAME, answer_review, build_policy, fail_review
from tests.support.tables import loop_over
from toolcards import gate
from toolcards.core.policy.language.document import parse
from toolcards.models import Approval, Review, Source, ToolCall


@loop_over(
    ("state", "by_kind", "answer"),
    [
        ("approved", "human", "allow"), ("claimed", "human", "allow"), ("succeeded", "human", "allow"),
        ("expired", "human", "allow"), ("denied", "human", "deny"), ("denied", "kill_switch", ""),
        ("denied", "reviewer", ""), ("approved", "reviewer", ""), ("expired", "timeout", ""), ("pending", "", ""),
        ("superseded", "human", ""),
    ],
)  # fmt: skip
def test_only_people_are_compared(state: str, by_kind: str, answer: str) -> None:
    assert read_answer_of_person(Review(approval=Approval(state=state, by_kind=by_kind))) == answer


@loop_over(
    ("answer", "state", "agreed", "differed", "looser"),
    [
        ("allow", "approved", 1, 0, 0), ("deny", "denied", 1, 0, 0), ("allow", "denied", 0, 1, 1),
        ("deny", "approved", 0, 1, 0), ("ask", "approved", 0, 0, 0), ("", "approved", 0, 0, 0),
    ],
)  # fmt: skip
def test_answers_agree_or_differ(answer: str, state: str, agreed: int, differed: int, looser: int) -> None:
    record = count_reviews([Review(answer=answer, approval=Approval(state=state, by_kind="human"))])
    assert (record.agreed, record.differed, record.looser) == (agreed, differed, looser)
    assert len(record.differences) == differed and record.total == 1


def test_an_allow_that_would_not_count_is_not_compared() -> None:
    approval = Approval(state="approved", by_kind="human")
    record = count_reviews([Review(answer="allow", note="This call is high risk.", approval=approval)])
    assert (record.limited, record.agreed, record.differed) == (1, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_the_record_is_that_of_one_reviewer_and_not_too_old(source: Source, policy: Any, an_approver: Any) -> None:
    policy(build_policy({"mode": "shadow"}))
    for number, (answer, vote) in enumerate([("allow", "deny"), ("allow", "approve"), ("", "approve")]):
        gate.decide(source, gate.DecisionRequest("r", f"c{number}", "bash", {"command": "make"}, place=f"{number}"))
        answer_review(answer) if answer else fail_review()
        gate.vote(an_approver, make_ballot(ToolCall.objects.latest("pk"), vote))
    reviewer = parse(build_policy({"mode": "shadow"})).reviewers[NAME]
    record = compare_with_people(reviewer)
    assert (record.total, record.failures, record.agreed, record.differed, record.looser) == (3, 1, 1, 1, 1)
    assert record.answers == {"allow": 2} and record.differences[0][1] == "deny"
    assert compare_with_people(replace(reviewer, prompt="Another.")).total == 0
    Review.objects.update(answered_at=time.time() - 40 * 86_400)
    assert compare_with_people(reviewer).total == 0
