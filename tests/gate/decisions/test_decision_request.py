"""Requests to run a call: asked again, with other arguments, and without a policy."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from tests.support.gated_calls import DECIDE, QUESTION
from toolcards import gate
from toolcards.models import Approval, ToolCall

ASK = {"default": "ask"}
pytestmark = pytest.mark.django_db(transaction=True)


def build_request(run: str = "r", call: str = "c", **more: Any) -> gate.DecisionRequest:
    return gate.DecisionRequest(**{"run": run, "call_id": call, "tool": "bash", "args": {"command": "ls"}} | more)


def test_an_approved_call_gets_a_permit_for_exactly_its_arguments(
    source: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    policy(ASK)
    decision = gate.decide(source, build_request())
    assert (decision["decision"], decision["permit"]) == ("ask", None)
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    again = gate.decide(source, build_request())
    assert again["decision"] == "allow"
    assert again["by"] == {"kind": "human", "name": "ann", "ids": ["ann"]}
    assert again["permit"]["id"]
    assert again["args_sha256"] == decision["args_sha256"]


def test_asking_the_same_again_gives_the_same_approval(source: Any, policy: Any, an_approver: Any) -> None:
    policy(ASK)
    first, second = gate.decide(source, build_request()), gate.decide(source, build_request())
    assert first["approval"]["id"] == second["approval"]["id"]
    assert Approval.objects.count() == 1


def test_an_attempt_is_refused_with_other_arguments(source: Any, policy: Any, an_approver: Any) -> None:
    policy(ASK)
    gate.decide(source, build_request())
    with pytest.raises(gate.KeyReuse) as error:
        gate.decide(source, build_request(args={"command": "rm -rf /"}, attempt=1))
    assert error.value.details["attempt"] == 2
    assert Approval.objects.get().state == "pending"


def test_other_arguments_without_an_attempt_replace_the_open_question(
    source: Any, policy: Any, an_approver: Any
) -> None:
    policy(ASK)
    first = gate.decide(source, build_request())
    second = gate.decide(source, build_request(args={"command": "rm -rf /"}))
    assert (first["attempt"], second["attempt"], second["decision"]) == (1, 2, "ask")
    assert Approval.objects.get(id=first["approval"]["id"]).state == "superseded"


def test_without_a_policy_nothing_is_allowed(source: Any) -> None:
    decision = gate.decide(source, build_request())
    assert (decision["decision"], decision["by"]["kind"]) == ("deny", "gate_error")


def test_no_one_to_ask_means_a_denial(source: Any, policy: Any) -> None:
    policy(ASK)
    decision = gate.decide(source, build_request(can_wait=False))
    assert (decision["decision"], decision["by"]["kind"]) == ("deny", "no_approver")


async def test_an_idempotency_key_belongs_to_one_call(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)(ASK)
    decision = QUESTION | {"idempotency_key": "k"}
    _, first, _ = await call("POST", DECIDE, decision)
    assert (await call("POST", DECIDE, decision))[1]["approval"]["id"] == first["approval"]["id"]
    status, answer, _ = await call("POST", DECIDE, decision | {"call_id": "d", "args": {"command": "git push --force"}})
    assert (status, answer["error"]["code"]) == (409, "key_reuse")
    assert (await call("POST", DECIDE, decision | {"run": "another"}))[0] == 200
