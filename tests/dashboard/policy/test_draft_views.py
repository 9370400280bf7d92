"""The draft: what activating it changes, and who was faster."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.policy_pages import PUSH, save
from toolcards import gate
from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_draft, policy_store
from toolcards.models import PolicyVersion

pytestmark = pytest.mark.django_db


def test_activating_makes_the_next_version(admin: Client, first: PolicyVersion) -> None:
    save(admin)
    answer = admin.post("/policy/draft/activate/", {"expected_active": 1, "note": "no shell"})
    assert answer.status_code == 302
    version = PolicyVersion.objects.get(active=True)
    assert (version.number, version.author, version.note) == (2, "a-admin", "no shell")
    assert decide(policy_store.get_active_policy(), PolicyRequest.for_tool("Bash", input={})).effect == "deny"


def test_the_slower_person_gets_a_notice_and_nothing_is_activated(admin: Client, first: PolicyVersion) -> None:
    save(admin)
    gate.activate({"v": 1, "default": "deny", "rules": []}, author="ben", expected_active=1)
    answer = admin.post("/policy/draft/activate/", {"expected_active": 1})
    assert answer.status_code == 409
    assert "Version 2 was activated in the meantime" in answer.content.decode()
    assert policy_store.get_active_version_number() == 2


def test_a_draft_that_changed_after_the_review_is_not_activated(admin: Client, first: PolicyVersion) -> None:
    answer = admin.post("/policy/draft/activate/", {"expected_active": 1, "draft_sha256": "0" * 64})
    assert answer.status_code == 409 and policy_store.get_active_version_number() == 1


def test_the_default_is_changed_in_the_draft(admin: Client, first: PolicyVersion) -> None:
    admin.post("/policy/draft/default/", {"default": "deny"})
    assert policy_draft.load_draft()["default"] == "deny" and policy_store.get_active_policy().default == "ask"


def test_the_agents_owner_may_approve_the_default_in_the_draft(admin: Client, first: PolicyVersion) -> None:
    policy_draft.update_draft_head({"default_ask": {"quorum": 1, "reauth": True}}, author="ann")
    fields: dict[str, Any] = {"quorum": 1, "reauth": True}
    for value, expected in (({"allow_requester": "on"}, fields | {"allow_requester": True}), ({}, fields)):
        admin.post("/policy/draft/default/", {"default": "ask"} | value)
        assert policy_draft.load_draft()["default_ask"] == expected
        page = admin.get("/policy/").content.decode()
        assert ("may approve calls that no rule matches" in page) == ("allow_requester" in expected)
    policy_draft.update_draft_head({"default_ask": None}, author="ann")
    admin.post("/policy/draft/default/", {"default": "ask"})
    assert "default_ask" not in policy_draft.load_draft()


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_starter_policy_replaces_the_draft(admin: Client, first: PolicyVersion, name: str) -> None:
    assert admin.post(f"/policy/packs/{name}/").status_code == 302
    assert policy_draft.load_draft() == dict(PRESETS[name].document) and policy_store.get_active_version_number() == 1


def test_the_past_shows_what_the_draft_would_change_and_alarms_for_what_a_person_denied(
    admin: Client, first: PolicyVersion, a_call: Any
) -> None:
    a_call("output-denied", tool="Edit", input={"path": "a"})
    admin.post("/policy/packs/watch/")
    page = " ".join(admin.get("/policy/").content.decode().split())
    assert "1 of 1 calls changes: 1 ask → allow" in page
    assert "data-alarm" in page and "1 call that a person denied would now be allowed" in page


def test_rule_ids_are_made_up_for_documents_without_them(admin: Client, first: PolicyVersion) -> None:
    policy_draft.replace_draft({"v": 1, "rules": [{"effect": "deny", "match": {"tool": "a"}}]}, author="a test")
    name = policy_draft.load_draft()["rules"][0]["id"]
    assert admin.get(f"/policy/rules/{name}/").status_code == 200


def test_the_draft_shows_shapes_with_real_calls_and_both_alarms(admin: Client, policy: Any, a_call: Any) -> None:
    policy({"default": "ask"})
    no = a_call("output-denied", call_id="c1", tool="Edit", input={"path": "a"})
    yes = a_call("approval-responded", call_id="c2", tool="Bash", input={"command": "git push"})
    policy_draft.replace_draft({"v": 1, "default": "allow", "rules": [PUSH]}, author="a test")
    page = admin.get("/policy/").content.decode()
    assert "2 of 2 calls change: " in page and "1 ask → allow" in page and "1 ask → deny" in page
    assert 'data-alarm="opened"' in page and 'data-alarm="closed"' in page
    assert f"/calls/{no.public_id}/" in page and f"/calls/{yes.public_id}/" in page


def test_a_changed_rule_says_how_many_past_calls_it_would_decide_differently(
    admin: Client, policy: Any, a_call: Any
) -> None:
    policy({"default": "ask"})
    a_call("approval-responded", tool="Bash", input={"command": "git push"})
    policy_draft.replace_draft({"v": 1, "default": "ask", "rules": [PUSH]}, author="a test")
    page = " ".join(admin.get("/policy/").content.decode().split())
    assert 'data-decides="1">would change 1 of 1 call</b>' in page


def test_the_former_address_of_the_draft_leads_to_the_policy(admin: Client, first: PolicyVersion) -> None:
    answer = admin.get("/policy/draft/")
    assert (answer.status_code, answer["Location"]) == (302, "/policy/")


def test_who_may_not_edit_sees_the_active_rules_alone(viewer: Client, first: PolicyVersion) -> None:
    policy_draft.save_rule({"id": "mine", "effect": "deny", "match": {"tool": ["a"]}}, author="ann")
    page = viewer.get("/policy/").content.decode()
    assert 'data-rule="ask-delete"' in page and 'data-rule="mine"' not in page
    assert "data-changes" not in page and "/effect/" not in page
