"""Past questions: who approved each, and which of them a person refused."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.policy.record.past_questions import count_agents, list_open_questions
from tests.support.gate_commands import make_ballot
from toolcards import gate
from toolcards.gate import policy_store
from toolcards.models import Approval, ToolCall

pytestmark = pytest.mark.django_db


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
