"""Votes by personal token: the same terms as on the page, and never by an agent's key."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from tests.support.votes_by_form import form
from toolcards.models import AgentKey, Approval, PersonalToken, ToolCall

pytestmark = pytest.mark.django_db


def issue(person: Any, *scopes: str) -> str:
    return PersonalToken.objects.issue(person, "terminal", scopes or ["vote"], 30)[1]


def post(path: str, secret: str, body: Any, client: Client | None = None, **how: Any) -> Any:
    return (client or Client(enforce_csrf_checks=True)).post(
        path, body, headers={"Authorization": f"Bearer {secret}"}, **({"content_type": "application/json"} | how)
    )


def vote(call: ToolCall, secret: str, **fields: Any) -> Any:
    pk = Approval.objects.get(call=call).pk
    return post(f"/api/v1/approvals/{pk}/vote", secret, form(call) | fields)


@pytest.mark.parametrize(("decision", "state"), [("approve", "approved"), ("deny", "denied")])
def test_a_token_answers_what_waits(an_approver: Any, a_call: Any, decision: str, state: str) -> None:
    call = a_call("approval-requested")
    answer = vote(call, issue(an_approver), decision=decision, reason="seen in the terminal")
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["by"]) == (
        state, {"kind": "human", "name": an_approver.get_username()},
    )  # fmt: skip
    assert Approval.objects.get().reason == "seen in the terminal"
    again = vote(ToolCall.objects.get(), issue(an_approver), decision=decision)
    assert again.status_code == 200  # the same answer of the same person


def test_a_form_counts_as_well(an_approver: Any, a_call: Any) -> None:
    call = a_call("approval-requested")
    pk = Approval.objects.get().pk
    client = Client(enforce_csrf_checks=True)
    headers = {"Authorization": f"Bearer {issue(an_approver)}"}
    answer = client.post(f"/api/v1/approvals/{pk}/vote", form(call) | {"decision": "approve"}, headers=headers)
    assert (answer.status_code, answer.json()["state"]) == (200, "approved")


def test_edited_arguments_are_json(an_approver: Any, a_call: Any) -> None:
    call = a_call("approval-requested", tool="Bash", input={"command": "ls"})
    answer = vote(call, issue(an_approver), decision="edit", edited_args={"command": "ls -l"})
    assert (answer.status_code, answer.json()["state"]) == (200, "approved")
    assert ToolCall.objects.get().as_card().input == {"command": "ls -l"}


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"rev": 99}, 412, "stale_rev"), ({"args_sha256": "0" * 64}, 412, "args_mismatch"),
        ({"view_sha256": "0" * 64}, 412, "view_stale"), ({"rev": "many"}, 422, "invalid_vote"),
        ({"decision": "perhaps"}, 422, "invalid_vote"), ({"decision": ""}, 422, "invalid_vote"),
        ({"always": "always:everything"}, 403, "scope"), ({"always_deny": "always:everything"}, 403, "scope"),
        ({"client_decision_id": "\ud800"}, 422, "invalid_vote"),
    ],
)  # fmt: skip
def test_what_the_page_refuses_the_token_is_refused(
    an_approver: Any, a_call: Any, change: dict[str, Any], status: int, code: str
) -> None:
    answer = vote(a_call("approval-requested"), issue(an_approver), **{"decision": "approve"} | change)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert Approval.objects.get().state == "pending"


def test_who_comes_second_hears_who_was_first(an_approver: Any, a_person: Any, a_call: Any) -> None:
    call = a_call("approval-requested")
    vote(call, issue(a_person("approver", "ben")), decision="deny")
    answer = vote(call, issue(an_approver), decision="approve")
    assert answer.status_code == 409
    assert answer.json()["error"]["detail"] == {"by": "ben", "state": "denied"}


@pytest.mark.parametrize("case", ["agent key", "wrong", "no scope", "no role", "revoked", "none"])
def test_no_other_secret_votes(an_approver: Any, a_person: Any, a_call: Any, key: AgentKey, case: str) -> None:
    call, secret, status = a_call("approval-requested"), "", 401
    if case == "agent key":
        secret, status = AgentKey.objects.issue("eve")[1], 403
    elif case == "wrong":
        secret = "tcp_" + "x" * 43
    elif case == "no scope":
        secret, status = issue(an_approver, "read", "policy", "audit"), 403
    elif case == "no role":
        person = a_person("approver", "bea")
        secret, status = issue(person), 403
        person.groups.set(Group.objects.filter(name="viewer"))
    elif case == "revoked":
        secret = issue(an_approver)
        PersonalToken.objects.all().revoke()
    answer = vote(call, secret, decision="approve")
    assert answer.status_code == status and answer.json()["error"]["code"]
    assert Approval.objects.get().state == "pending"


def test_a_token_counts_as_its_person_not_as_who_is_signed_in(a_person: Any, a_call: Any) -> None:
    call, browser = a_call("approval-requested"), Client(enforce_csrf_checks=True)
    browser.force_login(a_person("admin", "root"))
    pk = Approval.objects.get().pk
    secret = issue(a_person("approver", "ben"))
    answer = post(f"/api/v1/approvals/{pk}/vote", secret, form(call) | {"decision": "deny"}, browser)
    assert answer.json()["by"]["name"] == "ben"
    wrong_answer = post(f"/api/v1/approvals/{pk}/vote", "tcp_wrong", form(call) | {"decision": "deny"}, browser)
    assert wrong_answer.status_code == 401


def test_an_approval_is_taken_back_before_the_agent_has_it(an_approver: Any, a_call: Any) -> None:
    call, secret = a_call("approval-requested"), issue(an_approver)
    vote(call, secret, decision="approve")
    pk = Approval.objects.get().pk
    answer = post(f"/api/v1/approvals/{pk}/undo", secret, {})
    assert answer.status_code == 200 and answer.json()["state"] == Approval.objects.get().state != "approved"


def test_several_are_answered_at_once(an_approver: Any, edits: Any) -> None:
    votes = [form(call) | {"approval": Approval.objects.get(call=call).pk, "decision": "approve"} for call in edits(3)]
    answer = post("/api/v1/approvals/votes", issue(an_approver), {"votes": votes})
    assert [result["status"] for result in answer.json()["results"]] == [200, 200, 200]
    assert set(Approval.objects.values_list("state", flat=True)) == {"approved"}


@pytest.mark.parametrize("body", ["[]", "nothing", '{"rev": NaN}', '{"a": 1, "a": 2}', "[" * 100_000])
def test_a_body_that_is_no_object_is_refused(an_approver: Any, a_call: Any, body: str) -> None:
    a_call("approval-requested")
    path = f"/api/v1/approvals/{Approval.objects.get().pk}/vote"
    answer = Client().generic(
        "POST", path, body, content_type="application/json", headers={"Authorization": f"Bearer {issue(an_approver)}"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "not_json")


@pytest.mark.parametrize("pk", ["apr_none", "%00", "%F0%9F%92%A9", "votes"])
def test_an_unknown_approval_is_not_found(an_approver: Any, pk: str) -> None:
    answer = post(f"/api/v1/approvals/{pk}/vote", issue(an_approver), {"decision": "deny", "rev": 1})
    assert answer.status_code in (400, 404) and answer.json()["error"]["code"]


@pytest.mark.parametrize("field", ["always", "always_deny"])
def test_a_lasting_answer_requires_the_scope_of_the_policy_also_of_an_admin(
    a_person: Any, a_call: Any, field: str
) -> None:
    call, admin = a_call("approval-requested"), a_person("admin", "root")
    ballot = form(call) | {"approval": Approval.objects.get().pk, field: "always:everything"}
    result = post("/api/v1/approvals/votes", issue(admin), {"votes": [ballot]}).json()["results"][0]
    assert (result["status"], result["code"]) == (403, "scope")
    alone = vote(call, issue(admin, "vote", "policy"), **{field: "always:everything"})
    assert alone.json()["error"]["code"] == "always_not_offered"  # the scope is there, the answer is not


def test_no_field_lets_a_batch_approve_high_risk(a_person: Any, a_call: Any) -> None:
    call = a_call("approval-requested", tool="Bash", input={"command": "rm -rf /"})
    ballot = form(call) | {"approval": Approval.objects.get().pk, "always": "always:everything"}
    ballot.pop("decision", None)
    secret = issue(a_person("admin", "root"), "vote", "policy")
    result = post("/api/v1/approvals/votes", secret, {"votes": [ballot]}).json()["results"][0]
    assert result["code"] == "high_risk"
