"""Simulations for programs: filters, lists of calls, and the reason of each decision."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from tests.support.policy_pages import PUSH, SECRET
from toolcards.gate import policy_draft
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db


def send(client: Client, body: Any) -> Any:
    return client.post("/api/v1/policy/simulate", json.dumps(body), "application/json")


def test_programs_filter_the_past_and_ask_why(admin: Client, denied: ToolCall, a_call: Any) -> None:
    a_call(call_id="other", tool="Read", input={"path": "a"}, run="r2")
    body = {
        "document": {"v": 1, "default": "allow", "rules": []},
        "filter": {"tool": "Bash", "limit": 10},
        "explain": True,
    }
    result = send(admin, body).json()
    assert result["summary"] == {"calls": 1, "unknown": 0, "changed": 1, "changes": {"deny → allow": 1}}
    call = result["calls"][0]
    assert (call["call_id"], call["old"]["rule"], call["new"]["decision"]) == ("c", "no-push", "allow")
    assert result["groups"] == [{"tool": "Bash", "old": "deny", "new": "allow", "rule": "no-push", "count": 1}]
    assert SECRET not in json.dumps(result)
    pulled = PUSH | {"match": {"tool": ["Bash"], "args": [{"path": "/command", "op": "cmd", "value": "git pull"}]}}
    near = send(admin, body | {"document": {"v": 1, "default": "allow", "rules": [pulled]}}).json()["calls"][0]
    assert near["near_miss"]["rule"] == "no-push" and "/command" in near["near_miss"]["condition"]


def test_every_call_is_listed_on_request(admin: Client, denied: ToolCall) -> None:
    same = {"document": {"v": 1, "default": "allow", "rules": [PUSH]}}
    assert send(admin, same).json()["calls"] == []
    listed = send(admin, same | {"all": True}).json()["calls"]
    assert [(call["changed"], call["matched"]) for call in listed] == [(False, ["no-push"])]


@pytest.mark.parametrize(("value", "pointer"), [
    ({"filter": {"colour": "red"}}, "/filter/colour"), ({"filter": {"limit": "many"}}, "/limit"),
    ({"filter": {"tool": 1}}, "/filter/tool"), ({"filter": {"since": "yesterday"}}, "/filter/since"),
    ({"filter": {"since": "2027-01-01T00:00:00"}}, "/filter/since"),
    ({"filter": []}, None), ({"filter": [1]}, "/filter"),
    ({"limit": True}, "/limit"), ({"filter": {"since": -5}}, "/filter/since"),
])  # fmt: skip
def test_a_filter_that_means_nothing_is_refused(admin: Client, value: Any, pointer: str | None) -> None:
    policy_draft.ensure_first_version()
    answer = send(admin, {"document": {"v": 1, "rules": []}, **value})
    result = answer.json()["error"]["detail"]["findings"][0]["pointer"] if answer.status_code == 422 else None
    assert result == pointer and answer.status_code in (200, 422)
