"""Rows that are read with prepared SQL are the rows that the ORM reads."""

from __future__ import annotations

from typing import Any

import pytest
from django.forms.models import model_to_dict

from toolcards import gate
from toolcards.gate.writer import approval_rows
from toolcards.models import Approval, Source, ToolCall, Vote
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
