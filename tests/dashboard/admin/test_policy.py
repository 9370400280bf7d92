"""Policy in the admin: the site's form and checks, and earlier versions."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.support.admin_pages import address
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_draft, policy_store
from toolcards.models import DraftRule, PolicyVersion

pytestmark = pytest.mark.django_db
OF_THE_PACK = len(PRESETS["ask-on-writes"].document["rules"])


def test_draft_rules_use_the_sites_form_and_checks(admin: Client) -> None:
    wrong = admin.post(address("draftrule", "add"), {"effect": "deny", "path": "/a", "op": "re2", "value": "("})
    assert wrong.status_code == 200 and b"RE2" in wrong.content and DraftRule.objects.count() == OF_THE_PACK
    admin.post(address("draftrule", "add"), {"effect": "deny", "tool": "rm", "rule_id": "no-rm"})
    row = DraftRule.objects.get(rule_id="no-rm")
    assert policy_draft.build_rule_document(row)["match"] == {"tool": ["rm"]} and row.updated_by == "a-admin"
    page = admin.get(address("draftrule", "change", row.pk)).content.decode()
    assert 'value="rm"' in page
    admin.post(address("draftrule", "change", row.pk), {"effect": "ask", "tool": "rm", "rule_id": "no-rm"})
    assert DraftRule.objects.get(rule_id="no-rm").effect == "ask" and DraftRule.objects.count() == OF_THE_PACK + 1
    admin.post(address("draftrule"), {"action": "switch_off", "_selected_action": row.pk})
    assert DraftRule.objects.get(rule_id="no-rm").enabled is False
    assert "Review and activate the draft" in admin.get(address("draftrule")).content.decode()
    assert policy_store.get_active_version_number() == 1


def test_a_version_is_copied_to_the_draft(admin: Client) -> None:
    DraftRule.objects.all().delete()
    version = PolicyVersion.objects.get()
    admin.post(address("policyversion"), {"action": "copy_to_draft", "_selected_action": version.pk})
    assert DraftRule.objects.count() == OF_THE_PACK and policy_store.get_active_version_number() == 1


def test_the_admin_keeps_every_condition_of_a_rule(admin: Client) -> None:
    match = {"args": [{"path": f"/a{number}", "op": "cmd", "value": f"git {number}"} for number in range(3)]}
    rule = {"id": "three", "effect": "ask", "match": match, "unless": [{"args": [match["args"][0]]}]}
    policy_draft.save_rule(rule, author="a test")
    row = DraftRule.objects.get(rule_id="three")
    form = admin.get(address("draftrule", "change", row.pk)).context["adminform"].form
    shown_fields = [
        name for line in admin.get(address("draftrule", "change", row.pk)).context["adminform"] for name in line.fields
    ]
    posted = {name: form.fields[name].prepare_value(form[name].value()) for name in shown_fields}
    posted = {name: value for name, value in posted.items() if value not in (None, "")}
    assert admin.post(address("draftrule", "change", row.pk), posted).status_code == 302
    assert policy_draft.build_rule_document(DraftRule.objects.get(rule_id="three")) == rule
