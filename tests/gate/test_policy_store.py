"""Checks of a document: people who do not exist, and questions that no one may answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.reviewers import MODEL
from toolcards.core.policy.language.document import PolicyError, parse
from toolcards.gate import policy_store
from toolcards.gate.policy_store import check_reviewers

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


COMMAND = {"kind": "command", "command": "guard"}


@pytest.mark.parametrize(
    ("reviewer", "finding"),
    [
        (COMMAND, None),
        (COMMAND | {"command": "/bin/sh"}, ("/reviewers/g.x/command", "unknown_command")),
        (MODEL | {"url": "https://api.example.com"}, None),
        (MODEL | {"url": "http://127.0.0.1:9/v1"}, None),
        (MODEL | {"url": "http://127.0.0.1:8/v1"}, ("/reviewers/g.x/url", "unsafe_url")),
        (MODEL | {"url": "https://169.254.169.254/latest"}, ("/reviewers/g.x/url", "unsafe_url")),
        ({"kind": "webhook", "url": "https://10.0.0.1/hook"}, ("/reviewers/g.x/url", "unsafe_url")),
        ({"kind": "webhook", "url": "http://example.com/hook"}, ("/reviewers/g.x/url", "unsafe_url")),
    ],
)
def test_only_what_the_operator_allows_is_asked(limits: Any, reviewer: dict[str, Any], finding: Any) -> None:
    limits(reviewer_commands=("guard=/opt/guard",), webhook_private=("127.0.0.1:9",))
    policy = parse({"v": 1, "reviewers": {"g.x": reviewer}})
    expected_findings = [] if finding is None else [finding]
    assert [(each.pointer, each.code) for each in check_reviewers(policy)] == expected_findings
    assert all(each.grave for each in check_reviewers(policy))


@pytest.mark.django_db
def test_a_document_with_such_a_reviewer_is_refused(an_approver: Any) -> None:
    with pytest.raises(PolicyError) as error:
        policy_store.check_document({"v": 1, "reviewers": {"g": COMMAND}})
    assert [finding.pointer for finding in error.value.findings] == ["/reviewers/g/command"]
