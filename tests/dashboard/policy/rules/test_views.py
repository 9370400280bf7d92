"""Rules of the draft: saving, switching and removing them."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.support.policy_pages import save
from toolcards.gate import policy_draft, policy_store
from toolcards.models import DraftRule, PolicyVersion

pytestmark = pytest.mark.django_db


def test_a_saved_rule_is_in_the_draft_and_not_active(admin: Client, first: PolicyVersion) -> None:
    answer = save(admin)
    assert (answer.status_code, answer["Location"]) == (302, "/policy/draft/")
    assert policy_store.get_active_version_number() == 1
    rule = policy_draft.load_draft()["rules"][-1]
    assert (rule["effect"], rule["match"], rule["public_reason"]) == ("deny", {"tool": ["Bash"]}, "No shell.")
    page = admin.get("/policy/draft/").content.decode()
    assert 'data-change="added"' in page and "Deny when Bash is called." in page and ">Activate</button>" in page


def test_rules_are_switched_and_removed(admin: Client, first: PolicyVersion) -> None:
    admin.post("/policy/rules/ask-edit/switch/", {"to": "off"})
    assert DraftRule.objects.get(rule_id="ask-edit").enabled is False
    admin.post("/policy/rules/ask-edit/remove/")
    assert not DraftRule.objects.filter(rule_id="ask-edit").exists()
    assert admin.post("/policy/rules/ask-edit/remove/").status_code == 404
