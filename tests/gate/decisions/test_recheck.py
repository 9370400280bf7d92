"""An answer is rechecked against the policy that is active when it is used, and expires."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.contrib.auth.models import Group
from django.contrib.auth.models import User as Person
from django.test import Client

from tests.support.gated_calls import ALLOW, ASK, DECIDE, DENY, QUESTION, end_leases, get_approval
from toolcards import gate
from toolcards.models import (
    AgentKey,
    Approval,
    Source,
    ToolCall,
)

pytestmark = pytest.mark.django_db(transaction=True)


def save_source(**fields: Any) -> None:
    """Save the only source with these fields, as its page does."""
    source = Source.objects.get()
    for name, value in fields.items():
        setattr(source, name, value)
    source.save()


async def test_what_is_denied_in_the_meantime_is_revoked(call: Any, policy: Any, an_approver: Any, ballot: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    path, proof, pk = await get_approval(call, an_approver, ballot)
    await in_thread(policy)({"rules": [ASK, DENY]})
    status, body, _ = await call("POST", path, proof)
    assert (status, body["error"]["code"]) == (412, "policy_changed")
    row = await Approval.objects.aget(id=pk)
    card = (await ToolCall.objects.aget()).as_card()
    assert (row.state, card.state, card.denied_by.name) == ("revoked", "output-denied", "never")
    _, approval, _ = await call("GET", f"/api/v1/approvals/{pk}")
    assert (approval["decision"], approval["by"]["kind"], approval["reason"]["code"]) == ("deny", "rule", "rule_denied")
    assert (await call("POST", path, proof))[0] == 410


@pytest.mark.parametrize(
    "later", [[ASK, ASK | {"id": "also"}], [ASK | {"ask": {"quorum": 2}}], [ASK | {"ask": {"approvers": ["bob"]}}]]
)
async def test_what_has_stricter_terms_in_the_meantime_needs_approval_again(
    call: Any,
    policy: Any,
    an_approver: Any,
    a_person: Any,
    ballot: Any,
    later: Any,
) -> None:
    await in_thread(a_person)("approver", "bob")
    await in_thread(policy)({"rules": [ASK]})
    path, proof, pk = await get_approval(call, an_approver, ballot)
    await in_thread(policy)({"rules": later})
    status, body, _ = await call("POST", path, proof)
    anew = body["error"]["detail"]["approval"]
    assert (status, body["error"]["code"], anew["state"]) == (412, "policy_changed", "pending")
    assert (await Approval.objects.aget(id=pk)).state == "superseded"
    _, answer, _ = await call("GET", anew["poll"].partition("?")[0])
    assert (answer["decision"], answer["approval"]["have"], answer["permit"]) == ("ask", 0, None)
    assert (await call("POST", path, proof))[0] == 410


async def test_what_one_rule_allowed_and_another_asks_about_in_the_meantime_waits(
    call: Any,
    policy: Any,
    an_approver: Any,
    ballot: Any,
) -> None:
    await in_thread(policy)({"rules": [ALLOW]})
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    await in_thread(policy)({"rules": [ALLOW, ASK]})
    claim = f"/api/v1/permits/{decision['permit']['id']}/claim"
    proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    assert (await call("POST", claim, proof))[0] == 412
    await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    assert decision["decision"] == "allow"
    assert (await call("POST", f"/api/v1/permits/{decision['permit']['id']}/claim", proof))[0] == 200


@pytest.mark.parametrize(
    ("match", "change"),
    [
        ({"env": ["prod"]}, lambda: save_source(env="prod")),
        ({"user": ["ann"]}, lambda: save_source(owner=Person.objects.get(username="ann"))),
        ({"tool": ["never"]}, lambda: gate.set_kill_switch("ann", True)),
        ({"user": ["group:ops"]}, lambda: Group.objects.create(name="ops").user_set.add(*Person.objects.all())),
    ],
    ids=["its environment", "its owner", "all calls stop", "the owner's groups"],
)
async def test_an_allowed_call_is_denied_when_what_policy_reads_has_changed(
    call: Any, policy: Any, a_person: Any, match: Any, change: Any
) -> None:
    await in_thread(a_person)("approver", "ann")
    if "group:ops" in str(match):
        await in_thread(lambda: save_source(owner=Person.objects.get(username="ann")))()
    await in_thread(policy)({"rules": [ALLOW, {"id": "never", "effect": "deny", "match": match}]})
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    await in_thread(change)()
    claim = f"/api/v1/permits/{decision['permit']['id']}/claim"
    proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    assert (decision["decision"], (await call("POST", claim, proof))[0] in (410, 412)) == ("allow", True)


async def test_the_calls_of_an_open_run_are_decided_by_their_source_as_it_is_now(call: Any, policy: Any) -> None:
    await in_thread(policy)({"rules": [ALLOW, {"id": "never", "effect": "deny", "match": {"env": ["prod"]}}]})
    assert (await call("POST", DECIDE, QUESTION))[1]["decision"] == "allow"
    await in_thread(save_source)(env="prod")
    assert (await call("POST", DECIDE, QUESTION | {"call_id": "d"}))[1]["decision"] == "deny"


async def test_a_looser_policy_answers_nothing_by_itself(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    await call("POST", DECIDE, QUESTION)
    await in_thread(policy)({"rules": [ALLOW]})
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    assert decision["decision"] == "ask"


@pytest.mark.slow
async def test_an_answer_that_comes_late_over_the_socket_is_looked_at_again(
    agent: Any,
    policy: Any,
    an_approver: Any,
    ballot: Any,
    limits: Any,
) -> None:
    limits(handover_seconds=3600)
    await in_thread(policy)({"rules": [ASK]})
    async with agent(run="r", mode="gate") as socket:
        await socket.say(
            {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "git push"}}
        )
        assert (await socket.hear("decision"))["decision"] == "ask"
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
        await in_thread(policy)({"rules": [DENY]})
        limits(handover_seconds=0)
        assert (await socket.hear("decision"))["decision"] == "deny"
    assert (await Approval.objects.aget()).state == "revoked"


async def test_another_attempt_with_other_arguments_supersedes(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    _, first, _ = await call("POST", DECIDE, QUESTION)
    status, decision, _ = await call("POST", DECIDE, QUESTION | {"args": {"command": "ls"}, "attempt": 1})
    assert (status, decision["error"]["code"]) == (409, "key_reuse")
    _, second, _ = await call("POST", DECIDE, QUESTION | {"args": {"command": "ls"}, "attempt": 2})
    assert second["decision"] == "ask" and second["approval"]["id"] != first["approval"]["id"]
    assert (await Approval.objects.aget(id=first["approval"]["id"])).state == "superseded"
    assert (await call("GET", f"/api/v1/approvals/{first['approval']['id']}"))[1]["reason"]["code"] == "superseded"


@pytest.mark.parametrize("rule", [ASK, ALLOW])
async def test_what_began_in_a_lost_run_has_an_unknown_outcome(
    call: Any,
    policy: Any,
    an_approver: Any,
    ballot: Any,
    rule: Any,
) -> None:
    await in_thread(policy)({"rules": [rule]})
    if rule is ASK:
        path, proof, _ = await get_approval(call, an_approver, ballot)
    else:
        _, decision, _ = await call("POST", DECIDE, QUESTION)
        path = f"/api/v1/permits/{decision['permit']['id']}/claim"
        proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    assert (await call("POST", path, proof))[0] == 200
    assert (await call("POST", "/api/v1/runs/r/beat", {}))[0] == 200
    await in_thread(end_leases)()
    await in_thread(gate.sweep)()
    row = await Approval.objects.aget()
    assert row.state == "unknown"
    if rule is ASK:
        _, decision, _ = await call("GET", f"/api/v1/approvals/{row.pk}?wait=0")
        assert (decision["decision"], decision["reason"]["code"]) == ("deny", "lost")


def test_a_fresh_sign_in_elsewhere_does_not_make_an_old_session_fresh(
    source: Source, policy: Any, an_approver: Any, ballot: Any, client: Client
) -> None:
    policy({"rules": [ASK | {"ask": {"reauth": True}}]})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    client.force_login(an_approver)
    session = client.session
    session["signed_in_at"] -= 3600
    session.save()
    elsewhere = Client()
    elsewhere.force_login(an_approver)
    tool_call = ballot(ToolCall.objects.get(), "approve")
    vote = {"decision": "approve", "rev": tool_call.rev, "args_sha256": tool_call.args_sha256}
    assert client.post(f"/approvals/{tool_call.approval}/vote", vote).status_code == 401
    batch = {"votes": [vote | {"approval": tool_call.approval}]}
    response = client.post("/approvals/votes", batch, content_type="application/json").json()
    assert [one["status"] for one in response["results"]] == [401]
    assert elsewhere.post(f"/approvals/{tool_call.approval}/vote", vote).status_code == 303
    assert Approval.objects.get().state == "approved"


def test_a_sign_in_of_yesterday_is_not_fresh(
    source: Source, policy: Any, an_approver: Any, ballot: Any, client: Client
) -> None:
    policy({"rules": [ASK | {"ask": {"reauth": True}}]})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    client.force_login(an_approver)
    an_approver.refresh_from_db()
    an_approver.last_login = an_approver.last_login.replace(year=2020)
    an_approver.save()
    tool_call = ballot(ToolCall.objects.get(), "approve")
    form = {"decision": "approve", "rev": tool_call.rev, "args_sha256": tool_call.args_sha256}
    assert client.post(f"/approvals/{tool_call.approval}/vote", form).status_code == 401
    an_approver.is_active = False
    an_approver.save()
    assert client.post(f"/approvals/{tool_call.approval}/vote", form).status_code == 302  # to the sign-in
    assert Approval.objects.get().state == "pending"


def test_a_critical_rule_offers_no_yes_in_advance(source: Source, policy: Any, an_approver: Any) -> None:
    policy({"rules": [ASK | {"severity": "critical"}]})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert ToolCall.objects.get().as_card().approval.terms["grants"] == ["once"]  # type: ignore[union-attr]


async def test_an_ended_key_opens_nothing(call: Any, policy: Any, key: AgentKey) -> None:
    from django.utils import timezone

    from toolcards.transports.api import auth

    await in_thread(policy)({"rules": [ALLOW]})
    await AgentKey.objects.filter(pk=key.pk).aupdate(revoked_at=timezone.now())
    auth.clear_cache()
    assert (await call("POST", DECIDE, QUESTION))[0] == 401
