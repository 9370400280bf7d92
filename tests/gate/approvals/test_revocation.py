"""Revocation: an approval that the agent does not have can be revoked once, by a person, and then cannot be used."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.gate_commands import make_ballot
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.gate.agents import run_commands
from toolcards.gate.approvals import delivery, permits
from toolcards.gate.writer import group_commit
from toolcards.models import Approval, Event, Grant, ToolCall, Vote

pytestmark = pytest.mark.django_db
LONG = 600.0  # seconds: nothing is handed over while a test runs


@pytest.fixture(params=[0, LONG], ids=["at once", "held back"])
def handover(limits: Any, request: pytest.FixtureRequest) -> float:
    limits(handover_seconds=request.param)
    return float(request.param)


@pytest.fixture
def approved(handover: float, a_call: Any) -> ToolCall:
    """A call that ann has just approved, and whose agent does not know it yet."""
    return a_call("approval-responded")


def load_approval(call: ToolCall) -> Approval:
    return Approval.objects.get(call=call)


def permit_claimed(source: Any, row: Approval) -> Any:
    body = {"call_id": row.call.call_id, "args_sha256": row.args_sha256}
    return group_commit.execute(permits.ClaimPermit(source, row.permit, body))


def test_an_approval_taken_back_denies_the_call(approved: ToolCall, an_approver: Any, source: Any) -> None:
    card = gate.revoke_approval(an_approver, load_approval(approved).id).card
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
    handover: float, policy: Any, a_call: Any, an_approver: Any, source: Any
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


def ask_again(source: Any, row: Approval) -> Any:
    return gate.decide(source, gate.DecisionRequest(run="run-1", call_id="call-1", tool="bash", args={"command": "ls"}))


def fetch(source: Any, row: Approval) -> Any:
    return group_commit.execute(run_commands.FetchDecision(source, row.id))


def receive(source: Any, row: Approval) -> Any:
    """Get the answer as a socket, a hook and the AG-UI proxy do."""
    return group_commit.execute(delivery.ClaimDelivery(row.id))


WAYS = {"fetched": fetch, "asked again": ask_again, "claimed": permit_claimed, "sent": receive}


@pytest.mark.parametrize("way", WAYS)
def test_what_the_agent_has_is_not_revoked(a_call: Any, an_approver: Any, source: Any, way: str) -> None:
    row = load_approval(a_call("approval-responded"))
    assert WAYS[way](source, row).get("decision", "allow") == "allow"
    for _ in range(2):
        with pytest.raises(gate.TooLate, match="Too late to undo: the agent has the answer"):
            gate.revoke_approval(an_approver, row.id)
    row.refresh_from_db()
    assert row.state in ("approved", "claimed") and not AuditRow.objects.filter(act="vote.undone").exists()


@pytest.mark.parametrize("way", ["fetched", "asked again"])
def test_what_is_fetched_twice_is_recorded_once(a_call: Any, source: Any, way: str) -> None:
    row = load_approval(a_call("approval-responded"))
    answers = [WAYS[way](source, row) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2] and answers[0]["permit"]
    fetches = [event for event in Event.objects.all() if isinstance(event.decoded_fact, f.ApprovalFetched)]
    assert len(fetches) == 1 and permit_claimed(source, row)["state"] == "claimed"


@pytest.mark.parametrize("way", ["fetched", "asked again"])
def test_what_is_held_back_is_not_fetched(a_call: Any, an_approver: Any, source: Any, limits: Any, way: str) -> None:
    limits(handover_seconds=LONG)
    row = load_approval(a_call("approval-responded"))
    answer = WAYS[way](source, row)
    assert (answer["decision"], answer["permit"], answer["approval"]["state"]) == ("ask", None, "pending")
    assert gate.revoke_approval(an_approver, row.id).card.state == "output-denied"


def test_a_fetch_before_the_answer_does_not_end_the_undo(a_call: Any, an_approver: Any, source: Any) -> None:
    call = a_call("approval-requested")
    assert fetch(source, load_approval(call))["decision"] == "ask"
    gate.vote(an_approver, make_ballot(call, "approve"))
    gate.revoke_approval(an_approver, load_approval(call).id)
    assert fetch(source, load_approval(call))["decision"] == "deny"


@pytest.mark.parametrize("state", ["approval-requested", "output-denied"])
def test_only_an_approval_can_be_revoked(handover: float, a_call: Any, an_approver: Any, state: str) -> None:
    call = a_call(state)
    with pytest.raises(gate.TooLate):
        gate.revoke_approval(an_approver, load_approval(call).id)
    assert ToolCall.objects.get().state == state


def test_who_may_not_vote_may_not_revoke(approved: ToolCall, a_person: Any) -> None:
    with pytest.raises(gate.NotAllowed):
        gate.revoke_approval(a_person("viewer"), load_approval(approved).id)
    with pytest.raises(gate.NotFound):
        gate.revoke_approval(a_person("approver", "ben"), "apr_nothing")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", WAYS)
def test_of_undo_and_delivery_at_once_exactly_one_wins(a_call: Any, an_approver: Any, source: Any, way: str) -> None:
    row, start = load_approval(a_call("approval-responded")), threading.Barrier(2)
    winners: list[str] = []

    def undo() -> None:
        start.wait()
        try:
            gate.revoke_approval(an_approver, row.id)
            winners.append("undo")
        except gate.TooLate:
            pass
        finally:
            connection.close()

    def deliver() -> None:
        start.wait()
        try:
            answer = WAYS[way](source, row)
            winners.extend(["agent"] if answer.get("decision", "allow") == "allow" else [])
        except gate.TooLate:
            pass
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for work in (undo, deliver)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert load_approval(row.call).state == "revoked" if winners == ["undo"] else True
    assert Vote.objects.count() == 1


# ---------------------------------------------------------------- any order

STEPS = ["approve", "deny", "undo", "fetch", "ask again", "claim"]
DECISIONS = {"pending": "ask", "approved": "allow", "denied": "deny", "revoked": "deny"}
STATES = {"pending": "approval-requested", "approved": "approval-responded"}  # else output-denied
_numbers = itertools.count()


@pytest.mark.slow
@draw(200, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=8))
def test_in_every_order_an_undo_works_until_the_agent_has_the_answer(
    a_call: Any, an_approver: Any, source: Any, steps: list[str]
) -> None:
    run = f"run-{next(_numbers)}"
    call = a_call("approval-requested", run=run)
    row, answer, has_agent_it, is_claimed = load_approval(call), "pending", False, False

    def succeeds(act: Any, *arguments: Any) -> bool:
        try:
            act(*arguments)
        except gate.RequestRefused:
            return False
        return True

    for step in steps:
        row.refresh_from_db()
        if step in ("approve", "deny"):
            ballot = make_ballot(ToolCall.objects.get(pk=call.pk), step) if answer == "pending" else None
            if ballot is not None:
                gate.vote(an_approver, ballot)
                answer = {"approve": "approved", "deny": "denied"}[step]
        elif step == "undo":
            may_undo = answer == "revoked" or (answer == "approved" and not has_agent_it)
            assert succeeds(gate.revoke_approval, an_approver, row.id) is may_undo, (answer, has_agent_it)
            answer = "revoked" if may_undo else answer
        elif step == "claim":
            may_claim = answer == "approved" and not is_claimed
            assert succeeds(permit_claimed, source, row) is may_claim
            has_agent_it, is_claimed = has_agent_it or may_claim, is_claimed or may_claim
        else:
            request = gate.DecisionRequest(run=run, call_id="call-1", tool="bash", args={"command": "ls"})
            decision = fetch(source, row) if step == "fetch" else gate.decide(source, request)
            assert decision["decision"] == DECISIONS[answer]
            assert bool(decision["permit"]) is (answer == "approved" and not is_claimed)
            has_agent_it |= answer == "approved"
    assert ToolCall.objects.get(pk=call.pk).state == STATES.get(answer, "output-denied")
    assert AuditRow.objects.filter(act="vote.undone", run=run).count() == (answer == "revoked")
