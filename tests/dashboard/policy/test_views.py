"""Policy pages: the active version in sentences, other versions, roll back, and hostile text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client

from tests.support.policy_pages import save
from toolcards import gate
from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_draft, policy_store
from toolcards.models import PolicyVersion

pytestmark = pytest.mark.django_db


def test_the_page_says_the_model_and_every_rule_in_a_sentence(admin: Client, first: PolicyVersion) -> None:
    page = admin.get("/policy/").content.decode()
    assert "Deny beats ask, ask beats allow. If nothing matches: ask." in page
    for rule in policy_store.get_active_policy().rules:
        assert f'data-rule="{rule.id}"' in page
    assert ">Add rule</button>" in page


CALLS = [PolicyRequest.for_tool("Bash", input={"command": command}) for command in ("ls", "rm -rf /", "git push")] + [
    PolicyRequest.for_tool("Edit", input={"path": "a"}),
    PolicyRequest.for_tool("Read", input={"path": "a"}),
    PolicyRequest.for_tool("mail", input={}),
]  # fmt: skip


def test_rolling_back_gives_a_new_version_with_the_same_verdicts(admin: Client, first: PolicyVersion) -> None:
    before = [decide(policy_store.get_active_policy(), call).effect for call in CALLS]
    gate.activate(dict(PRESETS["locked-down"].document), author="ben")
    assert [decide(policy_store.get_active_policy(), call).effect for call in CALLS] != before
    assert admin.post("/policy/versions/1/copy/").status_code == 302
    admin.post("/policy/draft/activate/", {"expected_active": 2})
    active = PolicyVersion.objects.get(active=True)
    assert active.number == 3 and active.sha256 == first.sha256
    assert [decide(policy_store.get_active_policy(), call).effect for call in CALLS] == before


def test_versions_say_who_and_what_changed(admin: Client, first: PolicyVersion) -> None:
    gate.activate({"v": 1, "default": "deny", "rules": []}, author="ben", note="<b>closed</b>")
    page = admin.get("/policy/versions/2/").content.decode()
    assert 'data-change="removed"' in page and "If no rule matches: deny" in page
    assert "&lt;b&gt;closed&lt;/b&gt;" in page and "<b>closed" not in page
    assert "ben" in admin.get("/policy/versions/").content.decode()


def test_hostile_text_of_rules_is_escaped_everywhere(admin: Client, first: PolicyVersion) -> None:
    hostile = "</p><script>alert(1)</script>\u202e"
    save(admin, reason=hostile, tool=hostile, rule_id="hostile")
    admin.post("/policy/draft/activate/", {"expected_active": 1, "note": hostile})
    for url in ("/policy/", "/policy/versions/", "/policy/versions/2/", "/policy/rules/hostile/"):
        shown_text = admin.get(url).content.decode()
        assert "<script>alert" not in shown_text, url
    assert "U+202E" in admin.get("/policy/").content.decode()


def test_exported_and_imported_again_it_is_the_same(admin: Client, first: PolicyVersion) -> None:
    exported = admin.get("/policy/export/")
    assert exported["Content-Disposition"].startswith("attachment")
    admin.post("/policy/packs/watch/")
    assert admin.post("/policy/import/", {"document": exported.content.decode()}).status_code == 302
    assert policy_draft.load_draft() == json.loads(first.document)
    response = admin.post("/policy/import/", {"document": '{"v": 1, "rules": [{"effect": "maybe"}]}'})
    assert response.status_code == 422 and "/rules/0/effect" in response.content.decode()


def test_without_any_policy_the_page_says_that_everything_is_denied(admin: Client) -> None:
    assert "every gated call is denied" in admin.get("/policy/").content.decode()


def activate_former_form() -> None:
    path = Path(__file__).parents[2] / "core/policy/language/former_starters.json"
    gate.activate(json.loads(path.read_text("utf-8"))["ask-on-writes"], author="ben")


def test_a_former_form_of_a_starter_is_offered_the_new_one_and_keeps_deciding(
    admin: Client, first: PolicyVersion
) -> None:
    assert "data-newer-form" not in admin.get("/policy/").content.decode()
    activate_former_form()
    page = admin.get("/policy/").content.decode()
    assert 'data-newer-form="ask-on-writes"' in page and 'action="/policy/packs/ask-on-writes/"' in page
    admin.post("/policy/packs/ask-on-writes/")
    assert 'data-change="removed"' in admin.get("/policy/").content.decode()
    assert policy_store.get_active_version_number() == 2
    admin.post("/policy/draft/activate/", {"expected_active": 2})
    assert "data-newer-form" not in admin.get("/policy/").content.decode()


@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
def test_a_server_that_began_with_its_own_default_is_offered_the_new_form_with_it(admin: Client, default: str) -> None:
    policy_draft.ensure_first_version(default)
    assert "data-newer-form" not in admin.get("/policy/").content.decode()
    path = Path(__file__).parents[2] / "core/policy/language/former_starters.json"
    former = json.loads(path.read_text("utf-8"))["ask-on-writes"]
    rules = [rule for rule in former["rules"] if rule["effect"] != "allow"]
    gate.activate(former | {"default": default, "rules": rules}, author="ben")
    page = admin.get("/policy/").content.decode()
    assert 'data-newer-form="ask-on-writes"' in page and f'name="default" value="{default}"' in page
    admin.post("/policy/packs/ask-on-writes/", {"default": default})
    assert policy_draft.load_draft() == PRESETS["ask-on-writes"].with_default(default)
    assert admin.post("/policy/packs/ask-on-writes/", {"default": "maybe"}).status_code == 404


def test_only_people_who_may_edit_the_policy_are_offered_a_new_form(viewer: Client, first: PolicyVersion) -> None:
    activate_former_form()
    assert "data-newer-form" not in viewer.get("/policy/").content.decode()
