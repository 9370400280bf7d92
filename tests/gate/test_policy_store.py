"""Checks of a document: people who do not exist, and questions that no one may answer."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.core.policy.language.document import PolicyError
from toolcards.gate import policy_store

pytestmark = pytest.mark.django_db


def test_unknown_people_and_groups_are_reported(a_person: Any) -> None:
    a_person("admin")
    ask = {"approvers": ["a-admin", "group:gone"], "escalate": [{"after": "5m", "to": "nobody-such"}]}
    result = policy_store.check_document({"v": 1, "rules": [{"effect": "ask", "match": {"user": ["zoe"]}, "ask": ask}]})
    strangers = [finding.pointer for finding in result if finding.code == "unknown_person"]
    assert strangers == ["/rules/0/match/user/0", "/rules/0/ask/approvers/1", "/rules/0/ask/escalate/0/to"]


def test_asking_by_default_is_refused_if_no_one_may_answer(a_person: Any) -> None:
    a_person("viewer")
    with pytest.raises(PolicyError) as error:
        policy_store.check_document({"v": 1, "default": "ask", "rules": []})
    assert error.value.findings[0].pointer == "/default"


def test_without_a_policy_or_another_word_people_answer_what_agents_ask(policy: Any) -> None:
    assert not policy_store.leaves_questions()
    for document, is_left in [("watch", True), ("follow-the-agent", False), ({"v": 1, "rules": []}, False)]:
        policy(document)
        assert policy_store.leaves_questions() is is_left, document
