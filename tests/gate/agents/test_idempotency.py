"""Writes whose answer was lost are sent again: the same answer comes back, and nothing is written twice."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from toolcards import encryption, gate
from toolcards.gate.agents.idempotency import ReserveKey, UpdateKey
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import AgentKey, Approval, Event, Receipt, Source, Vote
from toolcards.transports.api import auth

pytestmark = pytest.mark.django_db(transaction=True)
DECIDE = "/api/v1/calls/decide"
QUESTION = {"run": "r", "call_id": "c", "tool": "bash", "args": {"command": "ls"}, "idempotency_key": "i"}
OTHER = "tck_another_secret_of_the_tests_0123456789a"


@sync_to_async
def forget() -> None:
    """Do what a restart does: all that is in memory is gone."""
    run_cache.clear()
    auth.clear_cache()


async def twice(call: Any, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a request, forget everything and send it again; return the answer, which must be the same."""
    first = await call(method, path, body)
    events = await Event.objects.acount()
    await forget()
    again = await call(method, path, body)
    assert again[:2] == first[:2]
    assert await Event.objects.acount() == events
    return first[0], first[1]


@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
async def test_a_call_that_is_asked_about_again_is_decided_once(
    call: Any, policy: Any, an_approver: Any, effect: str
) -> None:
    await sync_to_async(policy)({"default": effect})
    status, decision = await twice(call, "POST", DECIDE, QUESTION)
    assert (status, decision["decision"]) == (200, effect)
    assert await Approval.objects.acount() == (effect != "deny")


async def allowed(call: Any, policy: Any) -> tuple[str, dict[str, Any]]:
    """Return the address of an issued permit's claim, and the body of the claim."""
    await sync_to_async(policy)({"default": "allow"})
    decision = (await call("POST", DECIDE, QUESTION))[1]
    proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    return f"/api/v1/permits/{decision['permit']['id']}/claim", proof


async def test_a_claim_with_an_id_is_answered_again_until_the_result_is_in(call: Any, policy: Any) -> None:
    claim, proof = await allowed(call, policy)
    status, _ = await twice(call, "POST", claim, proof | {"claim_id": "mine"})
    assert status == 200
    status, answer, _ = await call("POST", claim, proof | {"claim_id": "of another"})
    assert (status, answer["error"]["code"]) == (410, "used")
    status, answer, _ = await call("POST", claim, proof)  # an unknown connection
    assert (status, answer["error"]["code"]) == (410, "used")
    status, answer, _ = await call("POST", claim, proof | {"claim_id": "mine", "args_sha256": "0" * 64})
    assert status == 410
    await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok", "output": 1})
    status, answer, _ = await call("POST", claim, proof | {"claim_id": "mine"})
    assert (status, answer["error"]["code"]) == (410, "used")


async def test_a_claim_is_answered_again_to_its_own_key_only(call: Any, policy: Any, key: Any) -> None:
    claim, proof = await allowed(call, policy)
    assert (await call("POST", claim, proof | {"claim_id": "mine"}))[0] == 200
    second = await sync_to_async(AgentKey.objects.issue)(key.source.name)  # another key of the same source
    foreign = await sync_to_async(AgentKey.objects.issue)("another agent")
    for secret, expected in ((second[1], (410, "used")), (foreign[1], (404, "not_found"))):
        status, answer, _ = await call("POST", claim, proof | {"claim_id": "mine"}, key=secret)
        assert (status, answer["error"]["code"]) == expected


async def test_a_claim_is_answered_again_while_its_call_streams_results(call: Any, policy: Any) -> None:
    claim, proof = await allowed(call, policy)
    first = await call("POST", claim, proof | {"claim_id": "mine"})
    partial = {"type": "tool.output.partial", "call_id": "c", "output": 1}
    await call("POST", "/api/v1/ingest?protocol=native&run=r", partial)
    again = await call("POST", claim, proof | {"claim_id": "mine"})
    assert again[:2] == first[:2]


@pytest.mark.parametrize("outcome", ["ok", "error", "aborted", "unknown"])
async def test_a_result_that_is_sent_again_is_written_once(call: Any, policy: Any, outcome: str) -> None:
    claim, proof = await allowed(call, policy)
    await call("POST", claim, proof)
    result = {"run": "r", "outcome": outcome} | ({"output": 1} if outcome == "ok" else {})
    status, _ = await twice(call, "POST", "/api/v1/calls/c/result", result)
    assert status == 200


async def test_a_question_is_withdrawn_once(call: Any, policy: Any, an_approver: Any) -> None:
    await sync_to_async(policy)({"default": "ask"})
    decision = (await call("POST", DECIDE, QUESTION))[1]
    status, result = await twice(call, "POST", f"/api/v1/approvals/{decision['approval']['id']}/withdraw")
    assert (status, result["approval"]["state"]) == (200, "cancelled")


async def test_a_run_ends_once_and_heartbeats_leave_no_trace(call: Any, policy: Any) -> None:
    await allowed(call, policy)
    assert (await twice(call, "POST", "/api/v1/runs/r/beat"))[0] == 200
    status, result = await twice(call, "POST", "/api/v1/runs/r/end", {"outcome": "success"})
    assert (status, result["status"]) == (200, "finished")
    late = await call("POST", "/api/v1/runs/r/end", {"outcome": "error"})
    assert late[1]["status"] == "finished"


def test_a_vote_that_is_sent_again_counts_once(a_call: Any, an_approver: Any, ballot: Any) -> None:
    result = a_call("approval-requested")
    same = ballot(result, "approve")
    first = gate.vote(an_approver, same)
    events = Event.objects.count()
    run_cache.clear()
    assert gate.vote(an_approver, same).approval == first.approval
    assert (Event.objects.count(), Vote.objects.count()) == (events, 1)
    with pytest.raises(gate.AlreadyDecided):
        gate.vote(an_approver, ballot(result, "deny"))


def test_receipts_are_sealed_and_given_back(source: Source) -> None:
    receipt = group_commit.execute(ReserveKey(source, "k", {}))
    group_commit.execute(UpdateKey(lambda tx: receipt.answer('{"said": "something"}')))
    with connection.cursor() as cursor:
        cursor.execute("SELECT answer FROM toolcards_receipt")
        assert cursor.fetchone()[0].startswith(encryption.MARK)
    assert group_commit.execute(ReserveKey(source, "k", {})).text == '{"said": "something"}'
    assert Receipt.objects.filter(answer="").count() == 0
