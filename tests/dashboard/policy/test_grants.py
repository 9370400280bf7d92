"""Grants as a list: counted, and taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from tests.support.gated_calls import ASK
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.models import (
    Grant,
    Source,
    ToolCall,
)

pytestmark = pytest.mark.django_db(transaction=True)


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
    half = client.delete("/api/v1/grants", r'{"id": "\ud800"}', content_type="application/json")
    assert half.status_code == 404
    assert gate.decide(source, gate.DecisionRequest(call_id="f", **request))["decision"] == "ask"
    assert AuditRow.objects.get(act="grant.revoked").actor == "ann"


def test_deactivating_a_person_ends_what_they_allowed_in_advance(
    source: Source, policy: Any, a_person: Any, ballot: Any, client: Client
) -> None:
    policy({"rules": [ASK]})
    ann, admin = a_person("approver", "ann"), a_person("admin")
    request = {"run": "r", "tool": "bash", "args": {"command": "git push"}}
    gate.decide(source, gate.DecisionRequest(call_id="c", **request))
    gate.vote(ann, replace(ballot(ToolCall.objects.get(), "approve"), grant={"kind": "until"}))
    client.force_login(admin)
    page = client.get(f"/settings/people/{ann.pk}/")
    assert "1 active</a>" in page.content.decode()
    answer = client.post(f"/settings/people/{ann.pk}/off/", {"seen": page.context["seen"]}, follow=True)
    assert "signed out everywhere, and 1 standing approval revoked." in answer.content.decode()
    assert "active</a>" not in answer.content.decode()
    assert client.get("/api/v1/grants").json() == {"grants": []}
    text = client.get("/policy/grants/").content.decode()
    assert "No standing approvals" in text and ", revoked" in text
    assert AuditRow.objects.get(act="grant.revoked").actor == admin.get_username()
    assert gate.decide(source, gate.DecisionRequest(call_id="d", **request))["decision"] == "ask"


def test_what_a_person_without_the_right_to_vote_allowed_in_advance_is_listed_as_ended(
    source: Source, policy: Any, a_person: Any, ballot: Any, client: Client
) -> None:
    policy({"rules": [ASK]})
    ann = a_person("approver", "ann")
    client.force_login(a_person("admin"))
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={"command": "git push"}))
    gate.vote(ann, replace(ballot(ToolCall.objects.get(), "approve"), grant={"kind": "until"}))
    assert len(client.get("/api/v1/grants").json()["grants"]) == 1
    ann.groups.clear()
    assert client.get("/api/v1/grants").json() == {"grants": []}
    assert "no longer approve calls" in client.get("/policy/grants/").content.decode()
