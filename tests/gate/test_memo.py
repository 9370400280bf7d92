"""What the writer remembers lasts for one transaction, and not past a change in it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from toolcards import gate
from toolcards.gate import emergency, memo
from toolcards.gate.decisions.decision_request import DecideCall
from toolcards.gate.writer import group_commit
from toolcards.models import KillSwitch, Source

pytestmark = pytest.mark.django_db


def request(call_id: str) -> gate.DecisionRequest:
    return gate.DecisionRequest("r", call_id, "bash", {"command": f"git push {call_id}"})


def decide_together(source: Source, *call_ids: str) -> list[dict[str, Any]]:
    works = [DecideCall(source, request(call_id)) for call_id in call_ids]
    group_commit.commit(works)
    return [work.answer for work in works]


def test_outside_of_a_transaction_everything_is_read_each_time() -> None:
    numbers = iter(range(3))
    assert [memo.recall("n", lambda: next(numbers)) for _ in range(2)] == [0, 1]
    with memo.open_memo():
        assert [memo.recall("n", lambda: next(numbers)) for _ in range(2)] == [2, 2]


def test_calls_of_one_commit_share_what_policy_needs(policy: Any, source: Source, an_approver: Any) -> None:
    policy({"default": "ask"})
    decide_together(source, "warm")
    with CaptureQueriesContext(connection) as one:
        decide_together(source, "a")
    with CaptureQueriesContext(connection) as ten:
        answers = decide_together(source, *(f"c{number}" for number in range(10)))
    assert {answer["decision"] for answer in answers} == {"ask"}
    assert len(ten) <= len(one) + 9 * 3  # the row of each approval, and the insertions that grow with the calls
    for table in ("toolcards_policyversion", "toolcards_killswitch", "auth_user", "toolcards_breakglass"):
        assert sum(table in query["sql"] for query in ten.captured_queries) <= 2, table


def test_a_kill_switch_in_the_same_commit_stops_the_calls_after_it(policy: Any, source: Source) -> None:
    policy({"default": "allow"})
    before, after = DecideCall(source, request("before")), DecideCall(source, request("after"))
    group_commit.commit([before, emergency.SetKillSwitch("ann", True), after])
    assert after.answer["decision"] == "deny"


def test_changes_of_others_count_from_the_next_commit_on(policy: Any, source: Source) -> None:
    policy({"default": "allow"})
    assert decide_together(source, "a")[0]["decision"] == "allow"
    KillSwitch.objects.create(on=True, by="another process", at=1.0)
    assert decide_together(source, "b")[0]["decision"] == "deny"
    KillSwitch.objects.create(on=False, by="another process", at=2.0)
    policy({"default": "deny"})
    assert decide_together(source, "c")[0]["decision"] == "deny"
