"""An answer counts for what was asked, under the policy of the moment when it is used, and for no longer."""

# ruff: noqa: E501, F811 - tables read better in long lines; fixtures come from next door
from __future__ import annotations

import io
import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection
from django.test import Client

from tests.serving import PATIENCE
from tests.transports.conftest import agent, call  # noqa: F401 - fixtures
from toolcards import gate
from toolcards.core import numbers
from toolcards.gate import memory, policies, telling
from toolcards.models import (
    AgentKey,
    Approval,
    BreakGlass,
    Event,
    Grant,
    PolicyVersion,
    Run,
    SeenTool,
    Source,
    ToolCall,
)
from toolcards.notify import messages
from toolcards.outbox import Delivery, Webhook
from toolcards.records import AuditRow
from toolcards.transports import presence
from toolcards.transports.auth import Caller

pytestmark = pytest.mark.django_db(transaction=True)
DECIDE = "/api/v1/calls/decide"
QUESTION = {"run": "r", "call_id": "c", "tool": {"name": "bash"}, "args": {"command": "git push"}}
ASK = {"id": "push", "effect": "ask", "match": {"tool": ["bash"]}}
ALLOW = {"id": "may", "effect": "allow", "match": {"tool": ["bash"]}}
DENY = {"id": "never", "effect": "deny", "match": {"tool": ["bash"]}}


async def approved(call: Any, person: Any, ballot: Any, **more: Any) -> tuple[str, dict[str, Any], str]:
    _, said, _ = await call("POST", DECIDE, QUESTION | more)
    await in_thread(lambda: gate.vote(person, ballot(ToolCall.objects.get(), "approve")))()
    _, said, _ = await call("GET", said["approval"]["poll"])
    proof = {"call_id": "c", "args_sha256": said["args_sha256"]}
    return f"/api/v1/permits/{said['permit']['id']}/claim", proof, said["approval"]["id"]


async def test_what_is_denied_by_now_is_taken_back(call: Any, policy: Any, an_approver: Any, ballot: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    path, proof, pk = await approved(call, an_approver, ballot)
    await in_thread(policy)({"rules": [ASK, DENY]})
    status, said, _ = await call("POST", path, proof)
    assert (status, said["error"]["code"]) == (412, "policy_changed")
    row = await Approval.objects.aget(id=pk)
    card = (await ToolCall.objects.aget()).as_card()
    assert (row.state, card.state, card.denied_by.name) == ("revoked", "output-denied", "never")
    _, told, _ = await call("GET", f"/api/v1/approvals/{pk}")
    assert (told["decision"], told["by"]["kind"], told["reason"]["code"]) == ("deny", "rule", "rule_denied")
    assert (await call("POST", path, proof))[0] == 410


@pytest.mark.parametrize(
    "later", [[ASK, ASK | {"id": "also"}], [ASK | {"ask": {"quorum": 2}}], [ASK | {"ask": {"approvers": ["bob"]}}]]
)
async def test_what_is_asked_more_strictly_by_now_is_asked_anew(
    call: Any,
    policy: Any,
    an_approver: Any,
    a_person: Any,
    ballot: Any,
    later: Any,
) -> None:
    await in_thread(a_person)("approver", "bob")
    await in_thread(policy)({"rules": [ASK]})
    path, proof, pk = await approved(call, an_approver, ballot)
    await in_thread(policy)({"rules": later})
    status, said, _ = await call("POST", path, proof)
    anew = said["error"]["detail"]["approval"]
    assert (status, said["error"]["code"], anew["state"]) == (412, "policy_changed", "pending")
    assert (await Approval.objects.aget(id=pk)).state == "superseded"
    _, told, _ = await call("GET", anew["poll"].partition("?")[0])
    assert (told["decision"], told["approval"]["have"], told["permit"]) == ("ask", 0, None)
    assert (await call("POST", path, proof))[0] == 410


async def test_what_a_rule_allowed_and_another_asks_about_by_now_waits(
    call: Any,
    policy: Any,
    an_approver: Any,
    ballot: Any,
) -> None:
    await in_thread(policy)({"rules": [ALLOW]})
    _, said, _ = await call("POST", DECIDE, QUESTION)
    await in_thread(policy)({"rules": [ALLOW, ASK]})
    claim = f"/api/v1/permits/{said['permit']['id']}/claim"
    proof = {"call_id": "c", "args_sha256": said["args_sha256"]}
    assert (await call("POST", claim, proof))[0] == 412
    await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
    _, said, _ = await call("POST", DECIDE, QUESTION)
    assert said["decision"] == "allow"
    assert (await call("POST", f"/api/v1/permits/{said['permit']['id']}/claim", proof))[0] == 200


async def test_a_looser_policy_answers_nothing_by_itself(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    await call("POST", DECIDE, QUESTION)
    await in_thread(policy)({"rules": [ALLOW]})
    _, said, _ = await call("POST", DECIDE, QUESTION)
    assert said["decision"] == "ask"


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
        await in_thread(gate.throw)("ann", True, "drill")
        said = await socket.hear("decision")
        assert (said["decision"], said["by"]["kind"]) == ("deny", "kill_switch")


async def test_another_attempt_with_other_arguments_supersedes(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    _, first, _ = await call("POST", DECIDE, QUESTION)
    status, said, _ = await call("POST", DECIDE, QUESTION | {"args": {"command": "ls"}})
    assert (status, said["error"]["code"]) == (409, "key_reuse")
    _, second, _ = await call("POST", DECIDE, QUESTION | {"args": {"command": "ls"}, "attempt": 2})
    assert second["decision"] == "ask" and second["approval"]["id"] != first["approval"]["id"]
    assert (await Approval.objects.aget(id=first["approval"]["id"])).state == "superseded"
    assert (await call("GET", f"/api/v1/approvals/{first['approval']['id']}"))[1]["reason"]["code"] == "superseded"


async def test_a_result_nobody_claimed_is_ungoverned(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    await call("POST", DECIDE, QUESTION)
    assert (await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"}))[0] == 200
    assert "ungoverned" in dict((await ToolCall.objects.aget()).as_card().anomalies)
    assert await AuditRow.objects.filter(act="ungoverned").aexists()


@pytest.mark.parametrize("rule", [ASK, ALLOW])
async def test_of_what_began_in_a_lost_run_nobody_knows_the_end(
    call: Any,
    policy: Any,
    an_approver: Any,
    ballot: Any,
    rule: Any,
) -> None:
    await in_thread(policy)({"rules": [rule]})
    if rule is ASK:
        path, proof, _ = await approved(call, an_approver, ballot)
    else:
        _, said, _ = await call("POST", DECIDE, QUESTION)
        path = f"/api/v1/permits/{said['permit']['id']}/claim"
        proof = {"call_id": "c", "args_sha256": said["args_sha256"]}
    assert (await call("POST", path, proof))[0] == 200
    assert (await call("POST", "/api/v1/runs/r/beat", {}))[0] == 200
    await in_thread(_let_time_pass)()
    await in_thread(gate.sweep)()
    assert (await Approval.objects.aget()).state == "unknown"


def _let_time_pass() -> None:
    Run.objects.update(alive_until=time.time() - 1)


async def test_a_tool_that_is_another_one_by_now_is_asked_about_until_an_admin_accepts_it(
    call: Any,
    policy: Any,
    an_approver: Any,
    a_person: Any,
) -> None:
    await in_thread(policy)({"rules": [ALLOW], "changed_tool": "ask"})
    first = {"tool": {"name": "bash", "schema_sha256": "a" * 64}}
    other = {"tool": {"name": "bash", "schema_sha256": "b" * 64}}
    assert (await call("POST", DECIDE, QUESTION | first))[1]["decision"] == "allow"
    said = (await call("POST", DECIDE, QUESTION | other | {"call_id": "d"}))[1]
    assert (said["decision"], said["reason"]["code"]) == ("ask", "changed_tool")
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
    for number, wanted in enumerate(("allow", "deny")):
        tools = [{"name": "deploy", "inputSchema": {"type": "object", "maxProperties": 5 + number}}]
        async with agent(run=f"r{number}", mode="gate") as socket:
            await socket.say({"type": "run.started", "tools": tools})
            await socket.say({"type": "tool.input.available", "call_id": "c", "tool": "deploy", "input": {}})
            assert (await socket.hear("decision"))["decision"] == wanted


def test_who_the_agent_works_for_does_not_answer_it(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    call_command("agentkey", "create", "owned", "--owner", "ann", "--env", "prod", stdout=io.StringIO())
    owned = Source.objects.get(name="owned")
    assert (owned.owner, owned.env) == (an_approver, "prod")
    policy({"rules": [ASK | {"ask": {"allow_requester": False}}]})
    asking = gate.Asking(run="r", call_id="c", tool="bash", args={})
    assert gate.decide(owned, asking)["by"]["kind"] == "no_approver"
    bob = a_person("approver", "bob")
    gate.decide(owned, gate.Asking(run="r2", call_id="c", tool="bash", args={}))
    waits = ToolCall.objects.get(waiting=True)
    with pytest.raises(gate.NotAllowed) as refused:
        gate.vote(an_approver, ballot(waits, "approve"))
    assert refused.value.code == "self_approval"
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
        said = gate.decide(source, gate.Asking(run=f"r{gate.active_number()}", call_id="c", tool="bash", args={}))
        assert (said["decision"], said["by"]["kind"]) == ("deny", "no_approver")
    policy({"rules": [ASK | {"ask": {"allow_requester": True}}]})
    gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={}))
    waits = ToolCall.objects.get(waiting=True)
    assert gate.vote(an_approver, ballot(waits, "approve")).state == "approval-responded"


async def test_whom_an_agent_works_for_answers_its_own_questions(agent: Any, an_approver: Any, ballot: Any) -> None:
    async with agent(run="r", mode="observe") as socket:
        await Source.objects.aupdate(owner=an_approver)
        ready = {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {}}
        await socket.say(ready, {"type": "approval.requested", "call_id": "c", "approval_id": "mine"})
        await socket.acked(2)
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
        assert (await socket.hear("decision"))["reply"]["approved"] is True


# ---------------------------------------------------------------- nobody answers for a while

WAITED = {"approvers": ["ann"], "decide_ttl": "1h", "escalate": [{"after": "5m", "to": "bob"}]}


def _let_it_wait(seconds: float) -> None:
    Approval.objects.filter(state="pending").update(requested_at=time.time() - seconds)


def test_a_question_nobody_answers_goes_to_others_once_and_they_may_answer_it(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any, client: Client
) -> None:
    bob = a_person("approver", "bob")
    policy({"rules": [ASK | {"ask": WAITED}]})
    until = gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={}))["approval"]["decide_by"]
    _let_it_wait(200)
    assert gate.sweep() == 0
    with pytest.raises(gate.NotAllowed):
        gate.vote(bob, ballot(ToolCall.objects.get(), "approve"))
    _let_it_wait(301)
    assert gate.sweep() == 1
    memory.forget_all()  # as after a restart
    assert gate.sweep() == 0
    ask = ToolCall.objects.get().as_card().approval
    assert ask is not None and [to for to, _ in ask.escalated] == ["bob"]
    row = AuditRow.objects.get(act="approval.escalated")
    assert (row.actor_kind, row.approval, row.details["to"]) == ("timeout", ask.id, ["bob"])
    client.force_login(bob)
    assert "data-escalated" in client.get("/approvals/").content.decode()
    listed = client.get("/api/v1/approvals").json()["approvals"][0]
    assert [one["to"] for one in listed["call"]["approval"]["escalated"]] == ["bob"]
    assert listed["expires_at"] == until
    assert gate.vote(bob, ballot(ToolCall.objects.get(), "approve")).state == "approval-responded"
    assert gate.sweep() == 0


def test_whoever_wants_to_hear_of_it_is_told_that_a_question_goes_to_others(
    source: Source, policy: Any, an_approver: Any, a_person: Any
) -> None:
    a_person("approver", "bob")
    Webhook.objects.create(name="w", url="https://example.com/", events='["approval.escalated"]', severity="high")
    telling.forget()
    policy({"rules": [ASK | {"ask": WAITED}]})
    gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={}))
    _let_it_wait(301)
    gate.sweep()
    gate.sweep()
    told = Delivery.objects.get()
    telling.forget()
    assert (told.event, told.severity, told.said["escalated_to"]) == ("approval.escalated", "high", ["bob"])
    assert "bob" in messages.of(told.said, told.severity).text


def test_an_answered_or_expired_question_goes_to_nobody(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    a_person("approver", "bob")
    policy({"rules": [ASK | {"ask": WAITED}]})
    for name in ("c", "d"):
        gate.decide(source, gate.Asking(run="r", call_id=name, tool="bash", args={}))
    gate.vote(an_approver, ballot(ToolCall.objects.get(call_id="c"), "deny"))
    Approval.objects.filter(call__call_id="d").update(expires_at=time.time() - 1)
    Approval.objects.update(requested_at=time.time() - 301)
    gate.sweep()
    assert gate.sweep() == 0 and not AuditRow.objects.filter(act="approval.escalated").exists()
    assert set(Approval.objects.values_list("state", flat=True)) == {"denied", "expired"}


def test_an_escalation_of_one_rule_opens_no_other_rules_list(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    bob = a_person("approver", "bob")
    anybodys = ASK | {"id": "loose", "ask": {"escalate": [{"after": "5m", "to": "bob"}]}}
    policy({"rules": [ASK | {"ask": {"approvers": ["ann"]}}, anybodys]})
    gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={}))
    _let_it_wait(301)
    assert gate.sweep() == 1
    with pytest.raises(gate.NotAllowed):
        gate.vote(bob, ballot(ToolCall.objects.get(), "approve"))
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))


# ---------------------------------------------------------------- a yes that nobody fetched

PUSH = {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "git push"}}


async def _approved_while_away(agent: Any, policy: Any, person: Any, ballot: Any) -> None:
    await in_thread(policy)({"rules": [ASK | {"ask": {"use_ttl": "1m"}}]})
    async with agent(run="r", mode="gate") as socket:
        await socket.say(PUSH)
        assert (await socket.hear("decision"))["decision"] == "ask"
    await in_thread(lambda: gate.vote(person, ballot(ToolCall.objects.get(), "approve")))()
    left = (await Approval.objects.aget()).permit_expires_at - time.time()
    assert 0 < left <= 60


@pytest.mark.parametrize("swept", [True, False])
async def test_a_yes_that_no_socket_fetched_in_time_is_none(
    agent: Any, policy: Any, an_approver: Any, ballot: Any, swept: bool
) -> None:
    await _approved_while_away(agent, policy, an_approver, ballot)
    await Approval.objects.aupdate(permit_expires_at=time.time() - 1)
    if swept:
        await in_thread(gate.sweep)()
        assert (await Approval.objects.aget()).state == "expired"
    async with agent(run="r", mode="gate") as socket:
        said = await socket.hear("decision")
        assert (said["decision"], said["by"]["kind"], said["approval"]["state"]) == ("deny", "timeout", "expired")
        assert said["reason"] == {"code": "permit_expired", "text": "Approved, but not begun in time. Ask again.", "suggest": ""}  # fmt: skip
        await socket.say(PUSH)
        anew = await socket.hear("decision")
        assert anew["decision"] == "ask" and anew["approval"]["id"] != said["approval"]["id"]
    assert await AuditRow.objects.filter(act="approval.expired", actor_kind="timeout").acount() == 1


async def test_a_yes_is_told_once_to_who_comes_back_in_time(
    agent: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await _approved_while_away(agent, policy, an_approver, ballot)
    async with agent(run="r", mode="gate") as socket:
        assert (await socket.hear("decision"))["decision"] == "allow"
    await Approval.objects.aupdate(permit_expires_at=time.time() - 1)  # it was used in time: this clock is over
    await in_thread(gate.sweep)()
    assert (await Approval.objects.aget()).state == "claimed"
    async with agent(run="r", mode="gate") as socket:
        await socket.acked(0)
        assert await socket.silent(0.7)


async def test_a_permit_that_was_not_claimed_in_time_says_so(
    call: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    path, proof, pk = await approved(call, an_approver, ballot)
    await Approval.objects.aupdate(permit_expires_at=time.time() - 1)
    status, said, _ = await call("POST", path, proof)
    assert (status, said["error"]["code"]) == (410, "expired")
    await in_thread(gate.sweep)()
    _, said, _ = await call("GET", f"/api/v1/approvals/{pk}")
    assert (said["decision"], said["by"]["kind"], said["reason"]["code"]) == ("deny", "timeout", "permit_expired")
    assert (await call("POST", path, proof))[1]["error"]["code"] == "expired"


async def test_what_a_gating_socket_asked_is_not_told_to_one_that_watches(
    agent: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    async with agent(run="r", mode="observe") as watching, agent(run="r", mode="gate") as gating:
        await watching.say({"type": "text.delta", "text": "hello"})
        await watching.acked(1)
        await gating.say(PUSH)
        assert (await gating.hear("decision"))["decision"] == "ask"
        await gate_closed(gating)
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
        assert await watching.silent(0.7)
        async with agent(run="r", mode="gate") as back:
            assert (await back.hear("decision"))["decision"] == "allow"


@pytest.mark.parametrize("grace", [0.4, 2, 30])
async def test_a_connection_renews_its_runs_lease_before_one_elsewhere_could_let_it_go(
    key: AgentKey, source: Source, limits: Any, grace: float
) -> None:
    limits(grace=grace)
    ours, theirs = (gate.open_stream(source, "r", protocol="native") for _ in range(2))
    connection = presence.Connection(Caller(source, key.pk))
    connection.sends(ours)
    await ours.settle()
    begun = time.monotonic()
    theirs.touch(grace)  # the last connection of another process has closed
    await theirs.settle()
    assert (await Run.objects.aget()).alive_until - time.time() <= grace
    connection.renew(begun + 0.75 * grace)
    await ours.settle()
    assert (await Run.objects.aget()).alive_until - time.time() > grace
    connection.close()
    await ours.settle()


async def gate_closed(socket: Any) -> None:
    await socket.wire.disconnect(timeout=PATIENCE)


def test_a_sign_in_of_yesterday_is_not_fresh(
    source: Source, policy: Any, an_approver: Any, ballot: Any, client: Client
) -> None:
    policy({"rules": [ASK | {"ask": {"reauth": True}}]})
    gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={}))
    client.force_login(an_approver)
    an_approver.refresh_from_db()
    an_approver.last_login = an_approver.last_login.replace(year=2020)
    an_approver.save()
    told = ballot(ToolCall.objects.get(), "approve")
    form = {"decision": "approve", "rev": told.rev, "args_sha256": told.args_sha256}
    assert client.post(f"/approvals/{told.approval}/vote", form).status_code == 401
    an_approver.is_active = False
    an_approver.save()
    assert client.post(f"/approvals/{told.approval}/vote", form).status_code == 302  # to the sign-in
    assert Approval.objects.get().state == "pending"


def test_what_was_allowed_in_advance_is_listed_counted_and_taken_back(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any, client: Client
) -> None:
    policy({"rules": [ASK]})
    asking = {"run": "r", "tool": "bash", "args": {"command": "git push"}}
    gate.decide(source, gate.Asking(call_id="c", **asking))
    told = ballot(ToolCall.objects.get(), "approve")
    client.force_login(an_approver)
    form = {
        "decision": "approve",
        "rev": told.rev,
        "args_sha256": told.args_sha256,
        "grant": "until",
        "grant_minutes": "5",
    }
    assert client.post(f"/approvals/{told.approval}/vote", form).status_code == 303
    said = gate.decide(source, gate.Asking(call_id="d", **asking))
    assert (said["decision"], said["by"]["kind"]) == ("allow", "grant") and "by ann" in said["reason"]["text"]
    assert gate.decide(source, gate.Asking(call_id="e", **asking | {"args": {"command": "git"}}))["decision"] == "ask"
    row = Grant.objects.get()
    listed = client.get("/api/v1/grants").json()["grants"]
    assert [(one["id"], one["used"], one["by"]) for one in listed] == [(row.pk, 1, "ann")]
    assert row.pk in client.get("/policy/grants/").content.decode()
    other = Client()
    other.force_login(a_person("approver", "bob"))
    assert other.delete(f"/api/v1/grants/{row.pk}").status_code == 403
    assert client.delete(f"/api/v1/grants?id={row.pk}").status_code == 200
    assert client.delete("/api/v1/grants/gra_none").status_code == 404
    assert gate.decide(source, gate.Asking(call_id="f", **asking))["decision"] == "ask"
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
    said = client.post(address, {"on": True, "reason": "x"}, content_type="application/json")
    assert (said.status_code, said.json()["error"]["code"]) == (401, "reauth")
    call_command("breakglass", "on", "--reason", "the pager", "--minutes", "5", stdout=io.StringIO())
    told = gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={}))
    assert (told["decision"], told["by"]["kind"]) == ("allow", "break_glass")
    assert gate.decide(source, gate.Asking(run="r", call_id="d", tool="rm", args={}))["decision"] == "deny"
    page = client.get("/settings/breakglass/").content.decode()
    assert "the pager" in page and f"/calls/{ToolCall.objects.get(call_id='c').public_id}/" in page
    assert "data-breakglass" in client.get("/").content.decode()
    BreakGlass.objects.update(until=time.time() - 1)
    assert gate.decide(source, gate.Asking(run="r", call_id="e", tool="bash", args={}))["decision"] == "ask"


def test_a_critical_rule_offers_no_yes_in_advance(source: Source, policy: Any, an_approver: Any) -> None:
    policy({"rules": [ASK | {"severity": "critical"}]})
    gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={}))
    assert ToolCall.objects.get().as_card().approval.terms["grants"] == ["once"]  # type: ignore[union-attr]


async def test_an_ended_key_opens_nothing(call: Any, policy: Any, key: AgentKey) -> None:
    from django.utils import timezone

    from toolcards.transports import auth

    await in_thread(policy)({"rules": [ALLOW]})
    await AgentKey.objects.filter(pk=key.pk).aupdate(revoked_at=timezone.now())
    auth.forget()
    assert (await call("POST", DECIDE, QUESTION))[0] == 401


def test_a_new_policy_is_applied_to_waiting_calls_only_where_that_is_chosen(
    source: Source, policy: Any, an_approver: Any, a_person: Any, client: Client
) -> None:
    policy({"rules": [ASK]})
    asking = gate.Asking(run="r", call_id="c", tool="bash", args={"command": "ls"})
    first = Approval.objects.filter(id=gate.decide(source, asking)["approval"]["id"])
    client.force_login(a_person("admin", "root"))
    steps = [(ALLOW, False, {"pending"}), (ASK | {"id": "more"}, True, {"superseded"}), (ALLOW, True, {"superseded"})]
    for number, (rule, chosen, states) in enumerate(steps):
        document = {"v": 1, "default": "ask", "rules": [rule]}
        assert client.put("/api/v1/policy/draft", document, content_type="application/json").status_code == 200
        body = {"expected_active": number + 1, "apply_to_waiting": chosen}
        said = client.post("/api/v1/policy/activate", body, content_type="application/json")
        assert said.status_code == 200 and ("applied" in said.json()) == chosen
        assert set(first.values_list("state", flat=True)) == states
    told = gate.decide(source, asking)
    assert (told["decision"], told["by"]["kind"]) == ("allow", "rule") and told["permit"]


# ---------------------------------------------------------------- a sender's own numbers


async def test_numbers_with_endless_gaps_are_refused_and_said_to_be(
    call: Any, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "MOST_GAPS", 3)
    frames = [{"n": n, "type": "text.delta", "text": str(n)} for n in (2, 4, 6, 8, 1, 3)]
    _, said, _ = await call("POST", "/api/v1/ingest?protocol=native&run=r", frames)
    assert (said["accepted"], said["refused"], said["error"]["code"]) == (5, 1, "gaps")
    assert json.loads((await Run.objects.aget()).numbers) == [4, [6, 6]]
    async with agent(run="s", mode="observe") as socket:
        await socket.say(frames[:4])
        assert (await socket.hear("error"))["code"] == "gaps"
        await socket.acked(4)
    texts = [event.said async for event in Event.objects.filter(run__name="s").order_by("seq")]
    assert [fact.text for fact in texts if fact.type == "text-delta"] == ["2", "4", "6"]


# ---------------------------------------------------------------- what the wire promises besides


def test_a_policy_that_cannot_be_read_allows_nothing(source: Source, policy: Any) -> None:
    policy("watch")
    for broken in ("{", '{"v": 1, "rules": [{"effect": "perhaps"}]}'):
        PolicyVersion.objects.filter(active=True).update(document=broken)
        policies._compiled.clear()
        said = gate.decide(source, gate.Asking(run=f"r{len(broken)}", call_id="c", tool="bash", args={}))
        assert (said["decision"], said["by"]["kind"], said["permit"]) == ("deny", "gate_error", None)
    policies._compiled.clear()


def test_what_cannot_be_written_into_the_trail_is_not_decided(source: Source, policy: Any) -> None:
    policy("watch")
    before = ToolCall.objects.count(), Approval.objects.count()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE toolcards_auditrow RENAME TO toolcards_elsewhere")
    try:
        with pytest.raises(DatabaseError):
            gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={}))
        assert (ToolCall.objects.count(), Approval.objects.count()) == before
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE toolcards_elsewhere RENAME TO toolcards_auditrow")
    assert gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={}))["decision"] == "allow"


async def test_an_idempotency_key_stands_for_one_call(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    asked = QUESTION | {"idempotency_key": "k"}
    _, first, _ = await call("POST", DECIDE, asked)
    assert (await call("POST", DECIDE, asked))[1]["approval"]["id"] == first["approval"]["id"]
    status, said, _ = await call("POST", DECIDE, asked | {"call_id": "d", "args": {"command": "git push --force"}})
    assert (status, said["error"]["code"]) == (409, "key_reuse")
    assert (await call("POST", DECIDE, asked | {"run": "another"}))[0] == 200


async def test_what_a_rule_allowed_over_a_socket_has_begun_with_a_right_to(agent: Any, call: Any, policy: Any) -> None:
    await in_thread(policy)({"rules": [ALLOW]})
    async with agent(run="r", mode="gate") as socket:
        await socket.say(PUSH)
        assert (await socket.hear("decision"))["decision"] == "allow"
    assert (await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"}))[0] == 200
    assert not (await ToolCall.objects.aget()).as_card().anomalies


async def test_a_lost_run_takes_its_questions_and_unused_answers_with_it(
    call: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    path, proof, pk = await approved(call, an_approver, ballot)
    await call("POST", DECIDE, QUESTION | {"call_id": "d"})
    waits = await ToolCall.objects.aget(call_id="d")
    told = ballot(waits, "approve")
    await call("POST", "/api/v1/runs/r/beat", {})
    await in_thread(_let_time_pass)()
    await in_thread(gate.sweep)()
    states = {row.call_id: row.state async for row in Approval.objects.all()}
    assert set(states.values()) == {"cancelled"}
    status, said, _ = await call("POST", path, proof)
    assert (status, said["error"]["code"]) == (410, "run_ended")
    with pytest.raises(gate.TooLate) as late:
        await in_thread(lambda: gate.vote(an_approver, told))()
    assert (late.value.status, late.value.code) == (410, "run_ended")
    _, said, _ = await call("GET", f"/api/v1/approvals/{pk}")
    assert (said["decision"], said["reason"]["code"]) == ("deny", "run_ended")


def test_an_answer_to_another_look_of_the_call_does_not_count(
    source: Source, policy: Any, an_approver: Any, client: Client
) -> None:
    policy({"rules": [ASK]})
    gate.decide(source, gate.Asking(run="r", call_id="c", tool="bash", args={"command": "PASSWORD=hunter2hunter2 ls"}))
    client.force_login(an_approver)
    page = client.get("/approvals/").content.decode()
    hidden = dict(re.findall(r'name="(rev|args_sha256|view_sha256)" value="([^"]+)"', page))
    listed = client.get("/api/v1/approvals").json()["approvals"][0]["call"]["approval"]
    assert hidden["view_sha256"] == listed["view_sha256"]
    path = f"/approvals/{listed['id']}/vote"
    assert client.post(path, hidden | {"decision": "approve", "view_sha256": "0" * 64}).status_code == 412
    with pytest.raises(gate.Changed) as refused:
        stale = gate.Ballot(listed["id"], "approve", int(hidden["rev"]), hidden["args_sha256"], "0" * 64)
        gate.vote(an_approver, stale)
    assert refused.value.code == "view_stale"
    assert client.post(path, hidden | {"decision": "approve"}).status_code == 303


def test_what_a_person_writes_reaches_the_model_without_control_characters(
    a_call: Any, an_approver: Any, ballot: Any, source: Source
) -> None:
    told = replace(
        ballot(a_call("approval-requested"), "deny"), reason="no\x1b[2J\x00\x07\r\nnot \x9bthis" + "x" * 3000
    )
    gate.vote(an_approver, told)
    asking = gate.Asking(run="run-1", call_id="call-1", tool="bash", args={"command": "ls"})
    text = gate.decide(source, asking)["reason"]["text"]
    assert text.startswith("A person declined: no[2J\nnot thisxxx") and len(text) < 2_100
