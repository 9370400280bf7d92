"""What the record says about rules: those that ask often, never decide, or never match."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dashboard.policy.record.rule_findings import OFTEN, QUIET_DAYS, RuleFinding, list_findings
from dashboard.policy.view_models import DAY
from toolcards.gate import policy_store
from toolcards.models import PolicyVersion

pytestmark = pytest.mark.django_db
ALLOW = {"id": "let-shell", "effect": "allow", "match": {"tool": ["Bash"]}}
ASK = {"id": "ask-shell", "effect": "ask", "match": {"kind": ["execute"]}}


def find() -> list[RuleFinding]:
    return list_findings(policy_store.get_active_policy())


def test_a_policy_without_calls_has_no_findings(policy: Any) -> None:
    policy({"default": "ask", "rules": [ALLOW]})
    assert find() == []


def test_a_rule_that_never_wins_is_named_with_the_rule_that_beats_it(policy: Any, a_call: Any) -> None:
    policy({"default": "ask", "rules": [ALLOW, ASK]})
    for number in range(3):
        a_call("approval-requested", tool="Bash", input={"command": "make"}, call_id=f"c{number}")
    words = "matched 3 of the latest 3 calls and decided none: beaten by ask-shell"
    assert find() == [RuleFinding("let-shell", "beaten", words)]


def test_a_rule_that_decides_some_calls_is_not_beaten(policy: Any, a_call: Any) -> None:
    policy(
        {
            "default": "ask",
            "rules": [ALLOW, ASK | {"unless": {"args": [{"path": "/command", "op": "eq", "value": "a"}]}}],
        }
    )
    for number in range(3):
        a_call("approval-requested", tool="Bash", input={"command": "make"}, call_id=f"c{number}")
    a_call("input-available", tool="Bash", input={"command": "a"}, call_id="other")
    assert find() == []


def test_a_rule_that_asks_often_is_named_with_its_questions_a_day(policy: Any, a_call: Any) -> None:
    policy({"default": "allow", "rules": [ASK]})
    for number in range(OFTEN):
        a_call("output-denied", tool="Bash", input={"command": "make"}, call_id=f"c{number}")
    assert find() == [RuleFinding("ask-shell", "often", f"asks {OFTEN} times a day")]


def test_a_rule_is_not_called_quiet_before_the_log_and_the_version_are_two_months_old(policy: Any, a_call: Any) -> None:
    policy({"default": "ask", "rules": [ALLOW]})
    a_call("approval-requested", tool="Edit", input={"path": "a"})
    assert find() == []
    PolicyVersion.objects.update(created_at=timezone.now() - timedelta(days=QUIET_DAYS + 1))
    assert find() == []


def test_a_rule_without_a_match_in_two_months_is_named(
    policy: Any, a_call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy({"default": "ask", "rules": [ALLOW]})
    a_call("approval-requested", tool="Edit", input={"path": "a"})
    now = time.time()
    monkeypatch.setattr("dashboard.policy.record.rule_findings.time.time", lambda: now + (QUIET_DAYS + 1) * DAY)
    assert find() == [RuleFinding("let-shell", "quiet", "never matched in 60 days")]
