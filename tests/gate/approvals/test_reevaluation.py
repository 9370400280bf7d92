"""New versions of the policy and calls that wait."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.gated_calls import ALLOW, ASK
from toolcards import gate
from toolcards.models import (
    Approval,
    Source,
)

pytestmark = pytest.mark.django_db(transaction=True)


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
