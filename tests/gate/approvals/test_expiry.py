"""Approvals whose time is over."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.core import mail as outbox
from django.test import Client

from dashboard.cards import labels
from tests.support.gated_calls import ASK
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.calls.call_json import compute_durations
from toolcards.gate.agents.run_commands import WithdrawApproval
from toolcards.gate.approvals import expiry
from toolcards.gate.approvals.expiry import EscalateApproval
from toolcards.gate.decisions.eligibility import load_terms
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import Approval, Event, Source, ToolCall
from toolcards.models.notifications import Delivery, Webhook
from toolcards.models.write_guard import allow_log_writes
from toolcards.notifications import dispatcher, formats, subscriptions

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_has_expired_cannot_be_approved(a_call: Any, an_approver: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    vote = ballot(call, "approve")
    with allow_log_writes():
        Approval.objects.update(expires_at=time.time() - 1)
    with pytest.raises(gate.TooLate):
        gate.vote(an_approver, vote)
    assert gate.sweep() == 1
    card = ToolCall.objects.get().as_card()
    assert (card.state, card.denied_by.kind) == ("output-denied", "timeout")


ASK_BY_DEFAULT = {"default": "ask"}
QUESTION = {"run": "r", "call_id": "c", "tool": {"name": "bash"}, "args": {"command": "git push"}}


@pytest.mark.parametrize("way", ["poll", "decide"])
async def test_a_question_whose_time_is_over_reads_as_expired_before_the_sweep(
    way: str, call: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)(ASK_BY_DEFAULT)
    _, decision, _ = await call("POST", "/api/v1/calls/decide", QUESTION)
    with allow_log_writes():
        await Approval.objects.aupdate(expires_at=time.time() - 1)
    with pytest.raises(gate.TooLate):
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
    path = f"/api/v1/approvals/{decision['approval']['id']}"
    _, answer, _ = await (call("GET", path) if way == "poll" else call("POST", "/api/v1/calls/decide", QUESTION))
    assert (answer["decision"], answer["reason"]["code"]) == ("deny", "approval_expired")
    assert (await Approval.objects.aget()).state == "expired"


async def test_applying_a_policy_allows_no_question_whose_time_is_over(
    call: Any, policy: Any, an_approver: Any
) -> None:
    await in_thread(policy)(ASK_BY_DEFAULT)
    await call("POST", "/api/v1/calls/decide", QUESTION)
    with allow_log_writes():
        await Approval.objects.aupdate(expires_at=time.time() - 1)
    await in_thread(policy)({"default": "allow"})
    await in_thread(gate.reevaluate_waiting)("ann")
    assert (await Approval.objects.aget()).state == "pending"


def test_an_approved_call_that_the_agent_never_starts_did_not_run(a_call: Any, an_approver: Any, ballot: Any) -> None:
    gate.vote(an_approver, ballot(a_call("approval-requested"), "approve"))
    with allow_log_writes():
        Approval.objects.update(permit_expires_at=1.0)
    assert gate.sweep() == 1
    card = ToolCall.objects.get().as_card()
    assert (card.state, card.cause, card.approval.by.kind) == ("output-error", "not-executed", "human")
    assert compute_durations(card)["running"] is None
    assert labels.describe_soft_end(card) == labels.UNUSED_SENTENCE


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_withdrawn_question_says_so_and_not_that_the_run_was_stopped(
    a_call: Any, an_approver: Any, ballot: Any, source: Any, is_answered: bool
) -> None:
    call = a_call("approval-requested")
    if is_answered:
        gate.vote(an_approver, ballot(call, "approve"))
    group_commit.execute(WithdrawApproval(source, Approval.objects.get().id))
    card = ToolCall.objects.get().as_card()
    assert labels.describe_soft_end(card) == labels.WITHDRAWN_SENTENCES[is_answered]


WAITING_TERMS = {"approvers": ["ann"], "decide_ttl": "1h", "escalate": [{"after": "5m", "to": "bob"}]}


def _let_it_wait(seconds: float) -> None:
    with allow_log_writes():
        Approval.objects.filter(state="pending").update(requested_at=time.time() - seconds)


@pytest.mark.django_db(transaction=True)  # a view of the API runs in a thread
def test_an_approval_without_an_answer_is_escalated_once_and_others_can_vote(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any, client: Client
) -> None:
    bob = a_person("approver", "bob")
    policy({"rules": [ASK | {"ask": WAITING_TERMS}]})
    until = gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))["approval"][
        "decide_by"
    ]
    _let_it_wait(200)
    assert gate.sweep() == 0
    with pytest.raises(gate.NotAllowed):
        gate.vote(bob, ballot(ToolCall.objects.get(), "approve"))
    _let_it_wait(301)
    assert gate.sweep() == 1
    run_cache.clear()  # as after a restart
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


def test_subscribers_are_notified_of_an_escalation(
    source: Source, policy: Any, an_approver: Any, a_person: Any
) -> None:
    a_person("approver", "bob")
    Webhook.objects.create(name="w", url="https://example.com/", events='["approval.escalated"]', severity="high")
    subscriptions.clear_cache()
    policy({"rules": [ASK | {"ask": WAITING_TERMS}]})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    _let_it_wait(301)
    gate.sweep()
    gate.sweep()
    delivery = Delivery.objects.get()
    subscriptions.clear_cache()
    assert (delivery.event, delivery.severity, delivery.decoded_payload["escalated_to"]) == (
        "approval.escalated",
        "high",
        ["bob"],
    )
    assert "bob" in formats.build_message(delivery.decoded_payload, delivery.severity).text


def test_a_recipient_gets_the_escalations_to_its_people(
    source: Source, policy: Any, an_approver: Any, a_person: Any, settings: Any
) -> None:
    a_person("approver", "bob")
    for name, to in (("everybody", []), ("leads", ["group:lead"]), ("bobs", ["ann", "bob"])):
        Webhook.objects.create(name=name, format="email", to=f"{name}@example.com", escalated_to=json.dumps(to))
    subscriptions.clear_cache()
    policy({"rules": [ASK | {"ask": WAITING_TERMS}]})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert set(Delivery.objects.values_list("webhook__name", flat=True)) == {"everybody", "leads", "bobs"}
    Delivery.objects.all().delete()
    _let_it_wait(301)
    gate.sweep()
    subscriptions.clear_cache()
    rows = Delivery.objects.filter(event="approval.escalated").values_list("webhook__name", flat=True)
    assert sorted(rows) == ["bobs", "everybody"]
    dispatcher.send_due()
    assert sorted(mail.to[0] for mail in outbox.outbox) == ["bobs@example.com", "everybody@example.com"]
    assert all("bob" in mail.body for mail in outbox.outbox)


def test_an_answered_or_expired_approval_is_not_escalated(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    a_person("approver", "bob")
    policy({"rules": [ASK | {"ask": WAITING_TERMS}]})
    for name in ("c", "d"):
        gate.decide(source, gate.DecisionRequest(run="r", call_id=name, tool="bash", args={}))
    gate.vote(an_approver, ballot(ToolCall.objects.get(call_id="c"), "deny"))
    with allow_log_writes():
        Approval.objects.filter(call__call_id="d").update(expires_at=time.time() - 1)
    with allow_log_writes():
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
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    _let_it_wait(301)
    assert gate.sweep() == 1
    with pytest.raises(gate.NotAllowed):
        gate.vote(bob, ballot(ToolCall.objects.get(), "approve"))
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))


# ---------------------------------------------------------------- which are due

LADDER = {"approvers": ["ann"], "escalate": [{"after": "1m", "to": "bob"}, {"after": "2m", "to": "eve"}]}


def open_approval(policy: Any, source: Source, terms: Any, call: str = "c") -> str:
    policy({"rules": [ASK | {"ask": terms}]})
    approval: str = gate.decide(source, gate.DecisionRequest("r", call, "bash", {}, place=call))["approval"]["id"]
    return approval


def list_escalated(pk: str) -> list[str]:
    """Return the people that the row and the card name, which must be the same."""
    row = Approval.objects.select_related("call").get(pk=pk)
    ask = row.call.as_card().approval
    names = [name for _, name in load_terms(row).escalated]
    assert ask is not None and [name for name, _ in ask.escalated] == list(dict.fromkeys(names))
    return names


def test_each_step_of_a_ladder_is_due_after_its_own_delay(
    source: Source, policy: Any, an_approver: Any, a_person: Any
) -> None:
    a_person("approver", "bob"), a_person("approver", "eve")
    pk = open_approval(policy, source, LADDER)
    for seconds, due, escalated in ((59, [], []), (61, [pk], ["bob"]), (119, [], ["bob"]), (121, [pk], ["bob", "eve"])):
        _let_it_wait(seconds)
        assert expiry.find_due_escalations() == due, seconds
        group_commit.execute(EscalateApproval(pk))
        assert list_escalated(pk) == escalated, seconds
        assert expiry.find_due_escalations() == []


def test_several_steps_that_are_due_at_once_are_one_entry(
    source: Source, policy: Any, an_approver: Any, a_person: Any
) -> None:
    a_person("approver", "bob"), a_person("approver", "eve")
    pk = open_approval(policy, source, LADDER)
    _let_it_wait(600)
    deadline = Approval.objects.get(pk=pk).expires_at
    group_commit.execute(EscalateApproval(pk))
    assert list_escalated(pk) == ["bob", "eve"]
    assert AuditRow.objects.get(act="approval.escalated").details["to"] == ["bob", "eve"]
    assert Approval.objects.get(pk=pk).expires_at == deadline


def test_a_person_named_twice_is_added_once(source: Source, policy: Any, an_approver: Any, a_person: Any) -> None:
    a_person("approver", "bob")
    ladder = [{"after": "1m", "to": "bob"}, {"after": "2m", "to": "bob"}]
    pk = open_approval(policy, source, {"approvers": ["ann"], "escalate": ladder})
    for seconds in (61, 121):
        _let_it_wait(seconds)
        group_commit.execute(EscalateApproval(pk))
    assert list_escalated(pk) == ["bob", "bob"]
    assert AuditRow.objects.filter(act="approval.escalated").count() == 1
    assert [event.decoded_fact.type for event in Event.objects.all()].count(f.ApprovalEscalated.type) == 1


def test_an_approval_that_does_not_escalate_or_was_asked_by_the_agent_is_never_due(
    source: Source, policy: Any, an_approver: Any
) -> None:
    pk = open_approval(policy, source, {"decide_ttl": "1h"})
    _let_it_wait(10**6)
    assert expiry.find_due_escalations() == []
    with allow_log_writes():
        Approval.objects.update(opener="agent", terms='{"escalate": [[1.0, "bob"]]}')
    assert expiry.find_due_escalations() == []
    with allow_log_writes():
        Approval.objects.update(opener="gate")
    assert expiry.find_due_escalations() == [pk]
    with allow_log_writes():
        Approval.objects.update(terms='{"escalate": []}')


def test_a_clock_that_was_set_forward_escalates_nothing(
    source: Source, policy: Any, an_approver: Any, a_person: Any
) -> None:
    a_person("approver", "bob")
    pk = open_approval(policy, source, LADDER)
    with allow_log_writes():  # requested in steady time: this process counts from another start
        Approval.objects.update(clock_offset=time.time() - clock.steady() - 3_600, requested_at=time.time())
    assert expiry.find_due_escalations() == []
    group_commit.execute(EscalateApproval(pk))
    assert list_escalated(pk) == []


def test_what_was_found_due_and_was_answered_or_passed_its_deadline_stays_as_it_is(
    source: Source, policy: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
    a_person("approver", "bob")
    first, second = open_approval(policy, source, LADDER), open_approval(policy, source, LADDER, "d")
    _let_it_wait(61)
    assert set(expiry.find_due_escalations()) == {first, second}
    gate.vote(an_approver, ballot(ToolCall.objects.get(call_id="c"), "approve"))
    with allow_log_writes():
        Approval.objects.filter(pk=second).update(expires_at=time.time() - 1)
    for pk in (first, second):
        group_commit.execute(EscalateApproval(pk))
        assert list_escalated(pk) == []
