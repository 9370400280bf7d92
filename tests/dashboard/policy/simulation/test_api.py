"""Simulations for programs: filters, lists of calls, and the reason of each decision."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from dashboard.policy.simulation import jobs
from tests.support.policy_pages import HX, PUSH, SECRET
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


def test_a_simulation_is_begun_looked_at_and_goes_stale(admin: Client, policy: Any, a_call: Any) -> None:
    policy("watch")
    a_call(tool="Bash", input={"command": "git push"})
    policy_draft.replace_draft({"v": 1, "default": "allow", "rules": [PUSH]}, author="a test")
    review = policy_draft.load_draft()
    from dashboard.policy.view_models import review_draft as reviewed

    span = jobs.Span(calls=1000, days=0)
    job = jobs.create_job(review, draft=reviewed().sha256, active=1, span=span, author="a-admin")
    going = admin.get(f"/policy/simulations/{job.id}/", headers=HX).content.decode()
    assert 'hx-trigger="every 500ms"' in going and "<progress" in going and "<html" not in going
    assert "Refresh" in admin.get(f"/policy/simulations/{job.id}/").content.decode()
    jobs.run_job(job.id)
    response = admin.get(f"/policy/simulations/{job.id}/", headers=HX).content.decode()
    assert (
        "1 of 1 calls changes: 1 allow → deny" in response
        and "hx-trigger" not in response
        and "data-stale" not in response
    )
    assert "Checked 1 call\n" in admin.get("/policy/").content.decode()
    policy_draft.remove_rule("no-push")
    assert "data-stale" in admin.get(f"/policy/simulations/{job.id}/", headers=HX).content.decode()


def test_only_those_who_edit_policy_simulate(a_person: Any, client: Client) -> None:
    client.force_login(a_person("approver"))
    assert client.post("/policy/draft/simulate/", {"calls": "1000", "days": "7"}).status_code == 403
    assert client.get("/policy/simulations/sim_x/").status_code == 403
    assert client.get("/policy/draft/text/").status_code == 403


def test_a_simulation_that_never_was_is_not_found(admin: Client) -> None:
    assert admin.get("/policy/simulations/sim_never/").status_code == 404
