"""Grants as a list: counted, and taken back."""

from __future__ import annotations

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
    assert gate.decide(source, gate.DecisionRequest(call_id="f", **request))["decision"] == "ask"
    assert AuditRow.objects.get(act="grant.revoked").actor == "ann"
