"""The policy API for admins' own programs: bare documents in and out, a pointer for every finding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from toolcards import gate
from toolcards.gate import policy_draft, policy_store

pytestmark = pytest.mark.django_db
DENY_BASH = {"v": 1, "default": "allow", "rules": [{"id": "no-bash", "effect": "deny", "match": {"tool": ["Bash"]}}]}
NOBODY = {"v": 1, "rules": [{"effect": "ask", "ask": {"approvers": ["group:x"]}}]}
WRONG = {"v": 1, "rules": [{"effect": "deny", "match": {"args": [{"path": "/a", "op": "like", "value": 1}]}}]}


@pytest.fixture
def admin(a_person: Any, client: Client) -> Client:
    client.force_login(a_person("admin"))
    policy_draft.ensure_first_version()
    return client


def send(client: Client, method: str, path: str, body: Any, **headers: str) -> Any:
    text = body if isinstance(body, str) else json.dumps(body)
    return client.generic(method, f"/api/v1/policy/{path}", text, "application/json", headers=headers)


def test_the_draft_is_read_and_replaced_as_a_bare_document(admin: Client) -> None:
    assert send(admin, "PUT", "draft", DENY_BASH).json() == DENY_BASH
    assert admin.get("/api/v1/policy/draft").json() == DENY_BASH
    assert policy_store.get_active_version_number() == 1


@pytest.mark.parametrize(("method", "path"), [("PUT", "draft"), ("POST", "validate"), ("POST", "simulate")])
@pytest.mark.parametrize(
    ("document", "pointer", "code"),
    [
        (WRONG, "/rules/0/match/args/0/op", "unknown_operator"),
        ({"v": 1, "rulez": []}, "/rulez", "unknown_field"),
        (NOBODY, "/rules/0/ask/approvers", "no_approvers"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_pointer(
    admin: Client, method: str, path: str, document: Any, pointer: str, code: str
) -> None:
    answer = send(admin, method, path, document)
    assert answer.status_code == 422
    findings = answer.json()["error"]["detail"]["findings"]
    assert (findings[0]["pointer"], findings[0]["code"]) == (pointer, code)


def test_validate_warns_and_changes_nothing(admin: Client) -> None:
    answer = send(admin, "POST", "validate", {"v": 1, "rules": [{"effect": "allow", "match": {"tool": ["*"]}}]})
    assert answer.status_code == 200
    assert "allows_everything" in [warning["code"] for warning in answer.json()["warnings"]]


@pytest.mark.parametrize("body", [
    {**DENY_BASH, "call": {"tool": "Bash", "args": {"command": "ls"}}},
    {"document": DENY_BASH, "call": {"tool": "Bash", "args": {"command": "ls"}}},
])  # fmt: skip
def test_one_call_is_simulated(admin: Client, body: Any) -> None:
    result = send(admin, "POST", "simulate", body).json()
    assert (result["decision"], result["rule"]) == ("deny", "no-bash")
    assert result["calls"][0]["old"]["decision"] == "allow" and result["calls"][0]["changed"] is True


def test_the_latest_calls_are_simulated_and_nothing_is_written(admin: Client, a_call: Any) -> None:
    a_call("output-available", tool="Bash")
    result = send(admin, "POST", "simulate", DENY_BASH).json()
    assert result["summary"] == {"calls": 1, "unknown": 0, "changed": 1, "changes": {"allow → deny": 1}}
    assert result["calls"][0]["call_id"] == "call-1"
    assert policy_draft.load_draft()["rules"][0]["id"] == "ask-delete"


def test_activating_compares_and_swaps(admin: Client) -> None:
    send(admin, "PUT", "draft", DENY_BASH)
    gate.activate({"v": 1, "rules": []}, author="ben")
    late = send(admin, "POST", "activate", {"expected_active": 1})
    assert (late.status_code, late.json()["error"]["detail"]["active"]) == (409, 2)
    created = send(admin, "POST", "activate", {"expected_active": 2, "note": "no bash"})
    assert (created.status_code, created.json()["version"]) == (200, 3)
    listed = admin.get("/api/v1/policy/versions").json()
    assert listed["active"] == 3
    newest = listed["versions"][0]
    assert (newest["version"], newest["author"], newest["note"]) == (3, "a-admin", "no bash")
    assert set(newest) == {"version", "sha256", "author", "note", "created_at"}


def test_activating_needs_to_know_what_is_active(admin: Client) -> None:
    answer = send(admin, "POST", "activate", {})
    assert answer.status_code == 422
    assert answer.json()["error"]["detail"]["findings"][0]["pointer"] == "/expected_active"


def test_a_body_that_is_not_json_is_400(admin: Client) -> None:
    assert send(admin, "POST", "validate", "{").status_code == 400


@pytest.mark.parametrize("path", ["draft", "validate", "simulate", "activate", "versions"])
def test_only_admins_get_in(path: str, a_person: Any, secret: str) -> None:
    method = "GET" if path in ("draft", "versions") else "POST"
    assert send(Client(), method, path, {}).status_code == 401
    assert send(Client(), method, path, {}, Authorization="Bearer tck_x").status_code == 401
    assert send(Client(), method, path, {}, Authorization=f"Bearer {secret}").status_code == 403
    for role in ("viewer", "approver"):
        client = Client()
        client.force_login(a_person(role))
        answer = send(client, method, path, {})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_writing_needs_the_form_token(a_person: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(a_person("admin"))
    answer = send(client, "PUT", "draft", DENY_BASH)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "csrf")
    token = "a" * 32
    client.cookies["toolcards_csrf"] = token
    assert send(client, "PUT", "draft", DENY_BASH, **{"X-CSRFToken": token}).status_code == 200


def test_other_methods_are_refused(admin: Client) -> None:
    assert send(admin, "DELETE", "draft", {}).status_code == 405
    assert admin.get("/api/v1/policy/activate").status_code == 405
