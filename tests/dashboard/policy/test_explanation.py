"""Why a call was denied, and what would change without the rule."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.policy_pages import HX, SECRET
from toolcards import gate
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db


def test_a_denied_call_says_why_and_what_dropping_the_rule_would_change(admin: Client, denied: ToolCall) -> None:
    page = admin.get(f"/calls/{denied.public_id}/").content.decode()
    assert f"/calls/{denied.public_id}/why/" in page and f"/calls/{denied.public_id}/rule/" in page
    why = admin.get(f"/calls/{denied.public_id}/why/", headers=HX).content.decode()
    assert "Why was it denied?" in why and 'data-rule="no-push"' in why and "✓" in why and "git push" in why
    assert 'data-without="no-push" data-effect="allow"' in why and "No pushing." in why
    assert SECRET not in why and "<html" not in why
    assert "<html" in admin.get(f"/calls/{denied.public_id}/why/").content.decode()


def test_why_uses_the_version_of_the_decision_and_shows_the_active_one(admin: Client, denied: ToolCall) -> None:
    gate.activate({"v": 1, "default": "allow", "rules": []}, author="ben")
    why = admin.get(f"/calls/{denied.public_id}/why/").content.decode()
    assert "policy version 1" in why and "Today, under version 2" in why


def test_why_shows_that_a_person_or_no_one_decided(admin: Client, a_call: Any) -> None:
    no = a_call("approval-requested", tool="Edit", input={"path": "a.py"})
    approval = no.as_shown_card().approval
    assert approval is not None
    vote = {"decision": "deny", "rev": no.rev, "args_sha256": approval.args_sha256, "reason": "Not this file."}
    assert admin.post(f"/approvals/{approval.id}/vote", vote).status_code == 303
    why = " ".join(admin.get(f"/calls/{no.public_id}/why/").content.decode().split())
    assert "Denied by a-admin. </b> Not this file." in why and "</b> No rule matches" not in why
    assert "Edit a.py <code>Edit</code></p>" in why
    seen_call = a_call("output-available", tool="Edit", call_id="seen", run="seen")
    assert "Not evaluated by policy" in admin.get(f"/calls/{seen_call.public_id}/why/").content.decode()
    assert admin.get("/calls/999-9/why/").status_code == 404


def test_viewers_may_ask_why_and_make_no_rules(client: Client, a_person: Any, denied: ToolCall) -> None:
    client.force_login(a_person("viewer"))
    assert client.get(f"/calls/{denied.public_id}/why/").status_code == 200
    assert client.get(f"/calls/{denied.public_id}/rule/").status_code == 403
    assert "Rule from this call" not in client.get(f"/calls/{denied.public_id}/").content.decode()
