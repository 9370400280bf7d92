"""Suggestions to stop asking: what the record must say, and what is never suggested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dashboard.policy.record.suggestions import (
    LEAST,
    AnswerSuggestion,
    count_agents,
    list_open_questions,
    list_suggestions,
)
from tests.support.gate_commands import make_ballot
from toolcards import gate
from toolcards.gate import lasting_answers, policy_store
from toolcards.models import Approval, ToolCall

pytestmark = pytest.mark.django_db
PUSH = {"command": "git push origin main"}
ASK_SHELL = {"id": "ask-shell", "effect": "ask", "match": {"kind": ["execute"]}}
Answer = Callable[..., None]


@pytest.fixture
def answer(a_call: Any, a_person: Any) -> Answer:
    """Give `answer(decision, count)`: so many calls, each answered by one of two people in turn."""
    people = [a_person("approver", "uma"), a_person("approver", "vic")]
    numbers = iter(range(1_000))

    def answer_calls(decision: str, count: int = LEAST, *, tool: str = "Bash", args: Any = PUSH) -> None:
        for _ in range(count):
            number = next(numbers)
            call = a_call("approval-requested", tool=tool, input=args, call_id=f"c{number}")
            gate.vote(people[number % 2], make_ballot(call, decision))

    return answer_calls


def suggest() -> list[AnswerSuggestion]:
    return list_suggestions(policy_store.get_active_policy())


@pytest.mark.parametrize("document", [{"default": "ask"}, {"default": "allow", "rules": [ASK_SHELL]}])
def test_what_people_always_approve_is_suggested_with_its_evidence(document: Any, policy: Any, answer: Answer) -> None:
    policy(document)
    answer("approve", LEAST + 2)
    (suggestion,) = suggest()
    assert "git push" in suggestion.answer.words
    assert suggestion.evidence == f"approved {LEAST + 2} times by 2 people, never denied"
    assert len(suggestion.covered) == LEAST + 2 and [count for _, count in suggestion.agents] == [LEAST + 2]


def test_an_empty_record_and_too_few_approvals_suggest_nothing(policy: Any, answer: Answer) -> None:
    policy({"default": "ask"})
    assert suggest() == []
    answer("approve", LEAST - 1)
    assert suggest() == []


def test_one_denial_ends_the_suggestion(policy: Any, answer: Answer) -> None:
    policy({"default": "ask"})
    answer("approve")
    assert len(suggest()) == 1
    answer("deny", 1)
    assert suggest() == []


@pytest.mark.parametrize(
    ("rules", "args"),
    [
        ([ASK_SHELL | {"severity": "high"}], PUSH),
        ([ASK_SHELL | {"ask": {"grants": ["once"]}}], PUSH),
        ([], {"command": "rm -rf build"}),
        ([], {"command": "deploy --token=ghp_abcdefghijklmnopqrstuvwxyz0123456789"}),
    ],
)
def test_high_risk_secrets_and_what_wants_an_answer_each_time_are_never_suggested(
    rules: Any, args: Any, policy: Any, answer: Answer
) -> None:
    policy({"default": "ask", "rules": rules})
    answer("approve", args=args)
    assert suggest() == []


def test_what_several_people_must_approve_is_never_suggested(policy: Any, answer: Answer) -> None:
    policy({"default": "ask"})
    answer("approve")
    policy({"default": "ask", "rules": [ASK_SHELL | {"ask": {"quorum": 2}}]})
    assert suggest() == []


def test_what_the_policy_already_allows_is_not_suggested(policy: Any, answer: Answer) -> None:
    policy({"default": "ask"})
    answer("approve")
    policy({"default": "allow"})
    assert suggest() == []


def test_calls_that_ended_without_a_person_are_no_evidence(policy: Any, a_call: Any, answer: Answer) -> None:
    policy({"default": "ask"})
    answer("approve", LEAST - 1)
    a_call("approval-requested", tool="Bash", input=PUSH, call_id="open")
    assert suggest() == [] and ToolCall.objects.count() == LEAST


@pytest.mark.parametrize("document", [{"default": "ask"}, {"default": "allow", "rules": [ASK_SHELL]}])
def test_the_rule_of_a_suggestion_answers_exactly_the_questions_that_it_names(
    document: Any, policy: Any, answer: Answer
) -> None:
    policy(document)
    answer("approve")
    for command in ("git push origin main && make deploy", "make deploy", "git push origin main; git push origin main"):
        answer("approve", 1, args={"command": command})
    (suggestion,) = suggest()
    active_policy = policy_store.get_active_policy()
    before = {question.pk for question in list_open_questions(active_policy)}
    changed_policy = lasting_answers.try_answer(active_policy, suggestion.newest.request, suggestion.answer)
    remaining = {question.pk for question in list_open_questions(changed_policy)}
    assert before - remaining == {question.pk for question in suggestion.covered}
    assert LEAST <= len(suggestion.covered) < len(before)


def test_each_question_has_its_answer_and_its_person(a_call: Any, an_approver: Any) -> None:
    a_call("output-denied", tool="Bash", input={"command": "make a"}, call_id="denied")
    for name in ("kept", "revoked"):
        a_call("approval-requested", tool="Bash", input={"command": f"make {name}"}, call_id=name)
        _approve(an_approver, name)
    gate.revoke_approval(an_approver, Approval.objects.get(call__call_id="revoked").id)
    a_call("approval-requested", tool="Bash", call_id="open")
    questions = {question.request.input["command"]: question for question in list_open_questions(_get_policy())}
    assert {name: (question.person, question.is_refused) for name, question in questions.items()} == {
        "make a": ("", True), "make kept": ("ann", False), "make revoked": ("", True),
    }  # fmt: skip
    assert sum(count for _, count in count_agents(list(questions.values()))) == 3


def test_questions_that_the_policy_no_longer_asks_are_left_out(a_call: Any, an_approver: Any, policy: Any) -> None:
    a_call("output-denied", tool="Bash", call_id="denied")
    policy({"default": "allow"})
    assert list_open_questions(_get_policy()) == []


def _get_policy() -> Any:
    return policy_store.get_active_policy()


def _approve(person: Any, name: str) -> None:
    gate.vote(person, make_ballot(ToolCall.objects.get(call_id=name), "approve"))
