"""Who may vote: not the person that the agent works for, except where a rule or the policy lets them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.core.management import CommandError, call_command

from tests.support.gated_calls import ASK
from toolcards import gate
from toolcards.gate import policy_store
from toolcards.models import (
    Source,
    ToolCall,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_who_the_agent_works_for_does_not_answer_it(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    call_command("agentkey", "create", "owned", "--owner", "ann", "--env", "prod", stdout=io.StringIO())
    owned = Source.objects.get(name="owned")
    assert (owned.owner, owned.env) == (an_approver, "prod")
    policy({"rules": [ASK | {"ask": {"allow_requester": False}}]})
    request = gate.DecisionRequest(run="r", call_id="c", tool="bash", args={})
    assert gate.decide(owned, request)["by"]["kind"] == "no_approver"
    bob = a_person("approver", "bob")
    gate.decide(owned, gate.DecisionRequest(run="r2", call_id="c", tool="bash", args={}))
    waits = ToolCall.objects.get(waiting=True)
    with pytest.raises(gate.NotAllowed) as error:
        gate.vote(an_approver, ballot(waits, "approve"))
    assert error.value.code == "self_approval"
    gate.vote(bob, ballot(waits, "approve"))
    with pytest.raises(CommandError):
        call_command("agentkey", "create", "owned", "--owner", "nobody")


def test_the_requester_answers_only_where_the_rule_lets_them(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    Source.objects.update(owner=an_approver)
    source.refresh_from_db()
    for document in ({"rules": [ASK]}, {"default": "ask"}):
        policy(document)
        decision = gate.decide(
            source, gate.DecisionRequest(run=f"r{gate.get_active_version_number()}", call_id="c", tool="bash", args={})
        )
        assert (decision["decision"], decision["by"]["kind"]) == ("deny", "no_approver")
    policy({"rules": [ASK | {"ask": {"allow_requester": True}}]})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    waits = ToolCall.objects.get(waiting=True)
    assert gate.vote(an_approver, ballot(waits, "approve")).state == "approval-responded"


def test_who_works_alone_answers_what_no_rule_asks_where_the_policy_lets_them(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    Source.objects.update(owner=an_approver)
    source.refresh_from_db()
    alone, lets = {"v": 1, "default": "ask"}, {"v": 1, "default": "ask", "default_ask": {"allow_requester": True}}
    assert [entry.code for entry in policy_store.check_document(alone)] == [
        "requester_only"
    ] and policy_store.check_document(lets) == []
    policy(alone)
    assert policy_store.is_default_unanswerable(source)
    policy(lets)
    assert not policy_store.is_default_unanswerable(source)
    decision = gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert decision["decision"] == "ask"
    waits = ToolCall.objects.get(waiting=True)
    assert gate.vote(an_approver, ballot(waits, "approve")).state == "approval-responded"
    policy(alone)  # what was answered under old terms needs approval again
    a_person("approver", "bob")
    assert policy_store.check_document(alone) == [] and not policy_store.is_default_unanswerable(source)


async def test_an_owner_answers_the_approvals_that_the_agent_requests(
    agent: Any, an_approver: Any, ballot: Any
) -> None:
    async with agent(run="r", mode="observe") as socket:
        await Source.objects.aupdate(owner=an_approver)
        ready = {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {}}
        await socket.say(ready, {"type": "approval.requested", "call_id": "c", "approval_id": "mine"})
        await socket.acked(2)
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
        assert (await socket.hear("decision"))["reply"]["approved"] is True
