"""Rows that are read with prepared SQL are the rows that the ORM reads."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.forms.models import model_to_dict
from django.test.utils import CaptureQueriesContext

from toolcards import gate
from toolcards.gate import emergency
from toolcards.gate.decisions.decision_request import DecideCall
from toolcards.gate.writer import approval_rows, group_commit
from toolcards.models import Approval, KillSwitch, Source, ToolCall, Vote, prepared_selects
from toolcards.models.prepared_selects import PreparedSelect
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
COMMAND = {"command": "git push"}


@pytest.fixture
def approval(policy: Any, source: Source, an_approver: Any) -> Approval:
    policy({"default": "ask"})
    pk = gate.decide(source, gate.DecisionRequest("r", "c", "bash", COMMAND))["approval"]["id"]
    return Approval.objects.get(id=pk)


def test_a_prepared_row_equals_the_row_of_the_orm(approval: Approval) -> None:
    row = PreparedSelect(Approval, "WHERE id = %s").fetch_first(approval.id)
    assert row is not None and model_to_dict(row) == model_to_dict(approval)
    assert type(row.asked) is bool and row._state.adding is False
    call = PreparedSelect(ToolCall, "WHERE id = %s").fetch_first(approval.call_id)
    assert call is not None and model_to_dict(call) == model_to_dict(approval.call)  # sealed columns, timestamps


def test_columns_are_sealed_and_converted_like_those_of_the_orm(approval: Approval) -> None:
    with allow_log_writes():
        approval_rows.update_approval(approval.id, note="for Ann", edited='{"a": 1}', delivered_at=None, asked=True)
    row = approval_rows.load_approval(approval.id)
    approval.refresh_from_db()
    assert row is not None and (row.note, row.edited) == (approval.note, approval.edited) == ("for Ann", '{"a": 1}')


def test_another_source_and_impossible_ids_find_nothing(approval: Approval) -> None:
    source = approval.run.source_id
    assert approval_rows.load_approval(approval.id, source) is not None
    assert approval_rows.load_approval(approval.id, source + 1) is None
    assert approval_rows.load_approval("apr_\0") is None and approval_rows.load_permit("", source) is None


def test_a_second_vote_of_a_person_replaces_the_first(approval: Approval, an_approver: Any) -> None:
    for decision, note in (("approve", "yes"), ("deny", "no")):
        approval_rows.write_vote(
            approval_id=approval.id, person_id=an_approver.pk, decision=decision, reason="", note=note,
            client_decision_id="", at=1.0,
        )  # fmt: skip
    assert approval_rows.list_decisions(approval.id) == {an_approver.pk: "deny"}
    assert [vote.note for vote in Vote.objects.all()] == ["no"]
    approval_rows.delete_votes(approval.id)
    assert not Vote.objects.exists()


def request(call_id: str) -> gate.DecisionRequest:
    return gate.DecisionRequest("r", call_id, "bash", {"command": f"git push {call_id}"})


def decide_together(source: Source, *call_ids: str) -> list[dict[str, Any]]:
    works = [DecideCall(source, request(call_id)) for call_id in call_ids]
    group_commit.commit(works)
    return [work.answer for work in works]


def test_outside_of_a_transaction_everything_is_read_each_time() -> None:
    numbers = iter(range(3))
    assert [prepared_selects.recall("n", lambda: next(numbers)) for _ in range(2)] == [0, 1]
    with prepared_selects.open_memo():
        assert [prepared_selects.recall("n", lambda: next(numbers)) for _ in range(2)] == [2, 2]


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
