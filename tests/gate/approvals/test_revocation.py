"""Revocation: an approval that is held back can be revoked once, by a person, and then cannot be used."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from tests.support.gate_commands import make_ballot
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.gate.agents import run_commands
from toolcards.gate.approvals import delivery, permits, revocation
from toolcards.gate.writer import group_commit
from toolcards.models import Approval, Grant, ToolCall, Vote
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
LONG = 600.0  # seconds: nothing is handed over while a test runs


@pytest.fixture
def held_back(limits: Any) -> None:
    limits(handover_seconds=LONG)


@pytest.fixture
def approved(held_back: None, a_call: Any) -> ToolCall:
    """A call that ann has just approved, and whose agent does not know it yet."""
    return a_call("approval-responded")


def load_approval(call: ToolCall) -> Approval:
    return Approval.objects.get(call=call)


def permit_claimed(source: Any, row: Approval) -> Any:
    body = {"call_id": row.call.call_id, "args_sha256": row.args_sha256}
    return group_commit.execute(permits.ClaimPermit(source, row.permit, body))


def test_an_approval_taken_back_denies_the_call(approved: ToolCall, an_approver: Any, source: Any) -> None:
    card = gate.revoke_approval(an_approver, load_approval(approved).id)
    assert (card.state, card.denied_by.name, card.approval.state) == ("output-denied", "ann", "revoked")
    assert load_approval(approved).state == "revoked"
    result = group_commit.execute(run_commands.FetchDecision(source, load_approval(approved).id))
    assert (result["decision"], result["permit"], result["by"]["name"]) == ("deny", None, "ann")
    assert "then revoked the approval" in result["reason"]["text"]


def test_its_permit_cannot_be_used(approved: ToolCall, an_approver: Any, source: Any) -> None:
    row = load_approval(approved)
    assert row.permit
    gate.revoke_approval(an_approver, row.id)
    with pytest.raises(gate.TooLate) as error:
        permit_claimed(source, row)
    assert error.value.code == "revoked"


def test_what_came_with_the_yes_goes_with_it(
    held_back: None, policy: Any, a_call: Any, an_approver: Any, source: Any
) -> None:
    policy({"rules": [{"id": "r", "effect": "ask", "match": {"tool": ["bash"]}, "ask": {"grants": ["once", "run"]}}]})
    call = a_call("approval-requested")
    ballot = make_ballot(call, "approve")
    gate.vote(
        an_approver, gate.Ballot(ballot.approval, "approve", ballot.rev, ballot.args_sha256, grant={"kind": "run"})
    )
    assert Grant.objects.get().revoked_at is None
    gate.revoke_approval(an_approver, ballot.approval)
    assert Grant.objects.get().revoked_at is not None
    assert AuditRow.objects.get(act="grant.revoked").actor == "ann"


def test_the_trail_says_who_took_it_back(approved: ToolCall, a_person: Any) -> None:
    gate.revoke_approval(a_person("approver", "ben"), load_approval(approved).id)
    assert AuditRow.objects.get(act="vote.undone").actor == "ben"
    assert AuditRow.objects.get(act="approval.revoked").actor_kind == "gate"


def test_the_same_person_twice_is_the_same_and_another_is_too_late(
    approved: ToolCall, an_approver: Any, a_person: Any
) -> None:
    first = gate.revoke_approval(an_approver, load_approval(approved).id)
    assert gate.revoke_approval(an_approver, load_approval(approved).id) == first
    with pytest.raises(gate.TooLate):
        gate.revoke_approval(a_person("approver", "ben"), load_approval(approved).id)
    assert AuditRow.objects.filter(act="vote.undone").count() == 1


def test_without_a_time_to_hold_it_back_nothing_can_be_taken_back(a_call: Any, an_approver: Any) -> None:
    call = a_call("approval-responded")
    with pytest.raises(gate.TooLate):
        gate.revoke_approval(an_approver, load_approval(call).id)
    assert load_approval(call).state == "approved"


def test_once_the_time_is_over_it_stays(approved: ToolCall, an_approver: Any, limits: Any) -> None:
    decided = load_approval(approved).decided_at
    limits(handover_seconds=revocation.UNDO_MARGIN)
    assert revocation.get_undo_deadline(decided) == 0
    with pytest.raises(gate.TooLate, match="the agent can have the answer"):  # none has fetched it
        gate.revoke_approval(an_approver, load_approval(approved).id)


def test_what_the_agent_has_taken_stays(approved: ToolCall, an_approver: Any) -> None:
    with allow_log_writes():
        Approval.objects.update(channel="socket")
    assert group_commit.execute(delivery.ClaimDelivery(load_approval(approved).id))["decision"] == "allow"
    with pytest.raises(gate.TooLate, match="the agent has the answer"):
        gate.revoke_approval(an_approver, load_approval(approved).id)


@pytest.mark.parametrize("state", ["approval-requested", "output-denied"])
def test_only_an_approval_can_be_revoked(held_back: None, a_call: Any, an_approver: Any, state: str) -> None:
    call = a_call(state)
    with pytest.raises(gate.TooLate):
        gate.revoke_approval(an_approver, load_approval(call).id)
    assert ToolCall.objects.get().state == state


def test_who_may_not_vote_may_not_revoke(approved: ToolCall, a_person: Any) -> None:
    with pytest.raises(gate.NotAllowed):
        gate.revoke_approval(a_person("viewer"), load_approval(approved).id)
    with pytest.raises(gate.NotFound):
        gate.revoke_approval(a_person("approver", "ben"), "apr_nothing")


def test_an_agent_that_asks_again_meanwhile_gets_pending(approved: ToolCall, source: Any, an_approver: Any) -> None:
    again = gate.decide(
        source, gate.DecisionRequest(run="run-1", call_id="call-1", tool="bash", args={"command": "ls"})
    )
    assert (again["decision"], again["approval"]["state"], again["permit"]) == ("ask", "pending", None)


@pytest.mark.django_db(transaction=True)
def test_of_taking_back_and_handing_over_exactly_one_wins(approved: ToolCall, an_approver: Any, source: Any) -> None:
    with allow_log_writes():
        Approval.objects.update(channel="socket")
    row, start, won = load_approval(approved), threading.Barrier(2), []

    def taking_back() -> None:
        start.wait()
        try:
            gate.revoke_approval(an_approver, row.id)
            won.append("undo")
        except gate.RequestRefused:
            pass
        finally:
            connection.close()

    def handing_over() -> None:
        start.wait()
        result = group_commit.execute(delivery.ClaimDelivery(row.id))
        won.extend(["agent"] if result and result["decision"] == "allow" else [])
        connection.close()

    threads = [threading.Thread(target=work) for work in (taking_back, handing_over)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert Vote.objects.count() == 1
