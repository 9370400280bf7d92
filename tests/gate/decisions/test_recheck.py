"""An answer is rechecked against the policy that is active when it is used, and expires."""

# ruff: noqa: E501 - tables read better in long lines; fixtures come from next door
from __future__ import annotations

import io
import time
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.core.management import CommandError, call_command
from django.test import Client

from tests.support.gated_calls import ALLOW, ASK, DECIDE, DENY, QUESTION, end_leases, get_approval
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.gate import policy_store
from toolcards.models import (
    AgentKey,
    Approval,
    BreakGlass,
    Grant,
    SeenTool,
    Source,
    ToolCall,
)

pytestmark = pytest.mark.django_db(transaction=True)


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


async def test_a_looser_policy_answers_nothing_by_itself(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    await call("POST", DECIDE, QUESTION)
    await in_thread(policy)({"rules": [ALLOW]})
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    assert decision["decision"] == "ask"


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


async def test_the_kill_switch_answers_sockets_at_once(agent: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    async with agent(run="r", mode="gate") as socket:
        await socket.say({"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {}})
        assert (await socket.hear("decision"))["decision"] == "ask"
        await in_thread(gate.set_kill_switch)("ann", True, "drill")
        decision = await socket.hear("decision")
        assert (decision["decision"], decision["by"]["kind"]) == ("deny", "kill_switch")


async def test_another_attempt_with_other_arguments_supersedes(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    _, first, _ = await call("POST", DECIDE, QUESTION)
    status, decision, _ = await call("POST", DECIDE, QUESTION | {"args": {"command": "ls"}, "attempt": 1})
    assert (status, decision["error"]["code"]) == (409, "key_reuse")
    _, second, _ = await call("POST", DECIDE, QUESTION | {"args": {"command": "ls"}, "attempt": 2})
    assert second["decision"] == "ask" and second["approval"]["id"] != first["approval"]["id"]
    assert (await Approval.objects.aget(id=first["approval"]["id"])).state == "superseded"
    assert (await call("GET", f"/api/v1/approvals/{first['approval']['id']}"))[1]["reason"]["code"] == "superseded"


async def test_a_result_without_a_claim_is_ungoverned(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    await call("POST", DECIDE, QUESTION)
    assert (await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"}))[0] == 200
    assert "ungoverned" in dict((await ToolCall.objects.aget()).as_card().anomalies)
    assert await AuditRow.objects.filter(act="ungoverned").aexists()


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


async def test_a_changed_tool_needs_approval_until_an_admin_accepts_it(
    call: Any,
    policy: Any,
    an_approver: Any,
    a_person: Any,
) -> None:
    await in_thread(policy)({"rules": [ALLOW], "changed_tool": "ask"})
    first = {"tool": {"name": "bash", "schema_sha256": "a" * 64}}
    other = {"tool": {"name": "bash", "schema_sha256": "b" * 64}}
    assert (await call("POST", DECIDE, QUESTION | first))[1]["decision"] == "allow"
    decision = (await call("POST", DECIDE, QUESTION | other | {"call_id": "d"}))[1]
    assert (decision["decision"], decision["reason"]["code"]) == ("ask", "changed_tool")
    assert (await call("POST", DECIDE, QUESTION | {"call_id": "e"}))[1]["decision"] == "ask"  # silence is no proof
    row = await SeenTool.objects.aget(accepted_at=None)
    admin = await in_thread(a_person)("admin", "root")

    def accept() -> int:
        client = Client()
        client.force_login(admin)
        assert f"/sources/tools/{row.pk}/accept/" in client.get(f"/sources/{row.source_id}/").content.decode()
        return client.post(f"/sources/tools/{row.pk}/accept/").status_code

    assert await in_thread(accept)() == 302
    assert (await call("POST", DECIDE, QUESTION | other | {"call_id": "f"}))[1]["decision"] == "allow"
    assert await AuditRow.objects.filter(act__in=["tool.changed", "tool.accepted"]).acount() == 2


async def test_a_schema_that_a_run_announces_is_remembered(agent: Any, policy: Any, source: Source) -> None:
    await in_thread(policy)({"rules": [ALLOW | {"match": {"tool": ["deploy"]}}], "changed_tool": "deny"})
    for number, expected in enumerate(("allow", "deny")):
        tools = [{"name": "deploy", "inputSchema": {"type": "object", "maxProperties": 5 + number}}]
        async with agent(run=f"r{number}", mode="gate") as socket:
            await socket.say({"type": "run.started", "tools": tools})
            await socket.say({"type": "tool.input.available", "call_id": "c", "tool": "deploy", "input": {}})
            assert (await socket.hear("decision"))["decision"] == expected


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


def test_what_was_allowed_in_advance_is_listed_counted_and_taken_back(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any, client: Client
) -> None:
    policy({"rules": [ASK]})
    request = {"run": "r", "tool": "bash", "args": {"command": "git push"}}
    gate.decide(source, gate.DecisionRequest(call_id="c", **request))
    tool_call = ballot(ToolCall.objects.get(), "approve")
    client.force_login(an_approver)
    form = {
        "decision": "approve",
        "rev": tool_call.rev,
        "args_sha256": tool_call.args_sha256,
        "grant": "until",
        "grant_minutes": "5",
    }
    assert client.post(f"/approvals/{tool_call.approval}/vote", form).status_code == 303
    decision = gate.decide(source, gate.DecisionRequest(call_id="d", **request))
    assert (decision["decision"], decision["by"]["kind"]) == ("allow", "grant") and "by ann" in decision["reason"][
        "text"
    ]
    assert (
        gate.decide(source, gate.DecisionRequest(call_id="e", **request | {"args": {"command": "git"}}))["decision"]
        == "ask"
    )
    row = Grant.objects.get()
    listed = client.get("/api/v1/grants").json()["grants"]
    assert [(one["id"], one["used"], one["by"]) for one in listed] == [(row.pk, 1, "ann")]
    assert row.pk in client.get("/policy/grants/").content.decode()
    other = Client()
    other.force_login(a_person("approver", "bob"))
    assert other.delete(f"/api/v1/grants/{row.pk}").status_code == 403
    assert client.delete(f"/api/v1/grants?id={row.pk}").status_code == 200
    assert client.delete("/api/v1/grants/gra_none").status_code == 404
    assert gate.decide(source, gate.DecisionRequest(call_id="f", **request))["decision"] == "ask"
    assert AuditRow.objects.get(act="grant.revoked").actor == "ann"


def test_the_glass_is_broken_with_a_reason_a_fresh_sign_in_and_for_a_while(
    source: Source, policy: Any, a_person: Any, client: Client
) -> None:
    policy({"rules": [ASK, DENY | {"match": {"tool": ["rm"]}}]})
    admin = a_person("admin", "root")
    client.force_login(admin)
    address = "/api/v1/breakglass"
    for wrong in ({"on": True}, {"on": True, "reason": " "}, {"on": True, "reason": "x", "minutes": 481},
                  {"on": True, "reason": "x", "minutes": "soon"}, {"on": True, "reason": "x", "minutes": -1}, {"on": 1}):  # fmt: skip
        assert client.post(address, wrong, content_type="application/json").status_code == 422, wrong
    admin.refresh_from_db()
    type(admin).objects.update(last_login=admin.last_login.replace(year=2020))
    response = client.post(address, {"on": True, "reason": "x"}, content_type="application/json")
    assert (response.status_code, response.json()["error"]["code"]) == (401, "reauth")
    call_command("breakglass", "on", "--reason", "the pager", "--minutes", "5", stdout=io.StringIO())
    decision = gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert (decision["decision"], decision["by"]["kind"]) == ("allow", "break_glass")
    assert gate.decide(source, gate.DecisionRequest(run="r", call_id="d", tool="rm", args={}))["decision"] == "deny"
    page = client.get("/settings/breakglass/").content.decode()
    assert "the pager" in page and f"/calls/{ToolCall.objects.get(call_id='c').public_id}/" in page
    assert "data-breakglass" in client.get("/").content.decode()
    BreakGlass.objects.update(until=time.time() - 1)
    assert gate.decide(source, gate.DecisionRequest(run="r", call_id="e", tool="bash", args={}))["decision"] == "ask"


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


def test_a_new_policy_is_applied_to_waiting_calls_only_where_that_is_chosen(
    source: Source, policy: Any, an_approver: Any, a_person: Any, client: Client
) -> None:
    policy({"rules": [ASK]})
    request = gate.DecisionRequest(run="r", call_id="c", tool="bash", args={"command": "ls"})
    first = Approval.objects.filter(id=gate.decide(source, request)["approval"]["id"])
    client.force_login(a_person("admin", "root"))
    steps = [(ALLOW, False, {"pending"}), (ASK | {"id": "more"}, True, {"superseded"}), (ALLOW, True, {"superseded"})]
    for number, (rule, chosen, states) in enumerate(steps):
        document = {"v": 1, "default": "ask", "rules": [rule]}
        assert client.put("/api/v1/policy/draft", document, content_type="application/json").status_code == 200
        body = {"expected_active": number + 1, "apply_to_waiting": chosen}
        response = client.post("/api/v1/policy/activate", body, content_type="application/json")
        assert response.status_code == 200 and ("applied" in response.json()) == chosen
        assert set(first.values_list("state", flat=True)) == states
    decision = gate.decide(source, request)
    assert (decision["decision"], decision["by"]["kind"]) == ("allow", "rule") and decision["permit"]


MINUTES: list[bytes] = [
    b"0", b"-0", b"-5", b"1e308", b"1e999", b"NaN", b"Infinity",
    b'"nan"', b'"inf"', b'"60abc"', b'"5"', b'""', b"true", b"false",
    b"null", b"[]", b"{}", b"481", b"480.0001", b"1" + b"0" * 400,
]  # fmt: skip


@pytest.mark.parametrize("minutes", MINUTES, ids=lambda text: text[:12].decode())
def test_glass_is_broken_for_a_number_of_minutes_or_not_at_all(minutes: bytes, a_person: Any, client: Client) -> None:
    client.force_login(a_person("admin"))
    body = b'{"on": true, "reason": "x", "minutes": ' + minutes + b"}"
    answer = client.post("/api/v1/breakglass", body, content_type="application/json")
    assert answer.status_code in {400, 422} and answer.json()["error"]["message"]
    assert client.get("/api/v1/breakglass").json() == {"on": False}
    text = minutes.decode().strip('"')
    if text:  # an empty field of the form is the usual hour
        page = client.post("/settings/breakglass/", {"to": "on", "reason": "x", "minutes": text})
        assert (page.status_code, client.get("/api/v1/breakglass").json()["on"]) == (
            (302, True) if text == "5" else (422, False)
        )
