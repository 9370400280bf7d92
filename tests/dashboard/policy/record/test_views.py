"""The page of suggestions: one press writes the rule, and Undo removes it; only for policy editors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from dashboard.policy.record.suggestions import LEAST
from dashboard.policy.record.views import describe_coverage
from tests.support.gate_commands import make_ballot
from toolcards import gate
from toolcards.models import PolicyVersion, Source, ToolCall

pytestmark = pytest.mark.django_db
PAGE = "/policy/suggestions/"
PUSH = {"command": "git push origin main"}


@pytest.fixture
def often_approved(policy: Any, a_call: Any, an_approver: Any) -> None:
    """Five calls that one person approved."""
    policy({"default": "ask"})
    for number in range(LEAST):
        gate.vote(
            an_approver,
            make_ballot(a_call("approval-requested", tool="Bash", input=PUSH, call_id=f"c{number}"), "approve"),
        )


def decide(source: Any, call_id: str) -> Any:
    return gate.decide(source, gate.DecisionRequest(run="next", call_id=call_id, tool="Bash", args=PUSH))["decision"]


def find_rule(page: str) -> str:
    match = re.search(r'data-suggestion="([^"]+)"', page)
    assert match is not None
    return match[1]


def test_one_press_writes_the_rule_with_its_evidence_and_undo_removes_it(
    admin: Client, often_approved: None, source: Any
) -> None:
    rule_id = find_rule(admin.get(PAGE).content.decode())
    response = admin.post(f"{PAGE}accept/", {"rule": rule_id}, follow=True)
    page = response.content.decode()
    assert "Won’t ask again for" in page and f"Undo {rule_id}" in page and "data-suggestion" not in page
    note = f"{rule_id}: approved {LEAST} times by 1 person, never denied, last with call c{LEAST - 1}, by a-admin."
    assert PolicyVersion.objects.get(active=True).note == note
    assert decide(source, "allowed") == "allow"
    page = admin.post(f"{PAGE}undo/", {"rule": rule_id}, follow=True).content.decode()
    assert find_rule(page) == rule_id
    assert decide(source, "asked") == "ask" and gate.get_active_version_number() == 3


@pytest.mark.parametrize("rule_id", ["", "always-x", "<script>"])
def test_what_the_record_does_not_support_writes_nothing(admin: Client, often_approved: None, rule_id: str) -> None:
    for act in ("accept", "undo"):
        response = admin.post(f"{PAGE}{act}/", {"rule": rule_id})
        assert response.status_code == 409 and "data-told" in response.content.decode()
    assert gate.get_active_version_number() == 1


def test_a_denial_after_the_page_was_read_refuses_the_press(
    admin: Client, often_approved: None, a_call: Any, an_approver: Any
) -> None:
    rule_id = find_rule(admin.get(PAGE).content.decode())
    gate.vote(an_approver, make_ballot(a_call("approval-requested", tool="Bash", input=PUSH, call_id="bad"), "deny"))
    assert admin.post(f"{PAGE}accept/", {"rule": rule_id}).status_code == 409
    assert gate.get_active_version_number() == 1


def test_undo_removes_lasting_answers_only(admin: Client, policy: Any) -> None:
    policy({"default": "allow", "rules": [{"id": "no-nuke", "effect": "deny", "match": {"tool": ["nuke"]}}]})
    assert admin.post(f"{PAGE}undo/", {"rule": "no-nuke"}).status_code == 409
    assert gate.get_active_version_number() == 1


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_only_policy_editors_see_and_press(client: Client, a_person: Any, often_approved: None, role: str) -> None:
    client.force_login(a_person(role, "sam"))
    assert client.get(PAGE).status_code == 403
    assert client.post(f"{PAGE}accept/", {"rule": "x"}).status_code == 403
    assert client.post(f"{PAGE}undo/", {"rule": "x"}).status_code == 403
    assert PAGE not in client.get("/policy/").content.decode()


def test_a_press_without_the_token_of_the_form_is_refused(a_person: Any, often_approved: None) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(a_person("admin"))
    assert client.post(f"{PAGE}accept/", {"rule": "x"}).status_code == 403


def test_the_policy_page_links_the_suggestions_and_an_empty_record_says_so(admin: Client, policy: Any) -> None:
    assert f'hx-get="{PAGE}"' not in admin.get("/policy/").content.decode()
    assert admin.get(PAGE).status_code == 200
    policy({"default": "ask"})
    assert f'hx-get="{PAGE}"' in admin.get("/policy/").content.decode()
    assert "A suggestion needs 5 approvals" in " ".join(admin.get(PAGE).content.decode().split())


def test_the_menu_of_a_question_counts_the_past_calls_of_each_lasting_answer(
    admin: Client, often_approved: None, a_call: Any, an_approver: Any
) -> None:
    call = a_call("approval-requested", tool="Bash", input=PUSH, call_id="now")
    address = f"/calls/{call.public_id}/covered/"
    page = admin.get(f"{address}?field=always").content.decode()
    assert f"{LEAST} of {LEAST} past calls" in page and 'name="always" value="always:command:any"' in page
    assert 'name="always_deny"' in admin.get(f"{address}?field=always_deny").content.decode()
    for query in ("", "?field=decision"):
        assert admin.get(f"{address}{query}").status_code == 404
    gate.vote(an_approver, make_ballot(call, "deny"))
    assert admin.get(f"{address}?field=always").status_code == 404


def test_only_policy_editors_may_count_what_a_lasting_answer_covers(viewer: Client, a_call: Any, policy: Any) -> None:
    policy({"default": "ask"})
    call = a_call("approval-requested", tool="Bash", input=PUSH, call_id="now")
    assert viewer.get(f"/calls/{call.public_id}/covered/?field=always").status_code == 403


def test_each_lasting_answer_says_how_many_past_calls_of_its_source_it_covers(
    a_call: Any, policy: Any, source: Any
) -> None:
    policy({"default": "ask"})
    for number, command in enumerate(("git push origin a", "git push origin main", "git push origin main", "make")):
        a_call("approval-requested", tool="Bash", input={"command": command}, call_id=f"c{number}")
    covered = describe_coverage(ToolCall.objects.get(call_id="c2"))
    assert covered["always:command:any"] == covered["always:command:run"] == "1 of 3 past calls"


def test_calls_of_other_sources_and_masked_inputs_are_not_counted(a_call: Any, policy: Any, source: Any) -> None:
    policy({"default": "ask"})
    other_source = Source.objects.create(name="another")
    gate.decide(
        other_source, gate.DecisionRequest(run="x", call_id="x", tool="Bash", args={"command": "git push origin m"})
    )
    a_call("approval-requested", tool="Bash", input={"command": "git push origin m"}, call_id="mine")
    assert set(describe_coverage(ToolCall.objects.get(call_id="mine")).values()) == {"0 of 0 past calls"}
