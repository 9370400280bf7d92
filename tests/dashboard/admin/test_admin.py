"""The Django admin: read what the gate wrote, answer through the gate, write the draft through its form."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_draft, policy_store
from toolcards.models import AgentKey, Approval, DraftRule, PolicyVersion, Run, Source
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
OF_THE_PACK = len(PRESETS["ask-on-writes"].document["rules"])
READ_ONLY = ("run", "toolcall", "event", "approval", "policyversion")


@pytest.fixture
def admin(a_person: Any, client: Client) -> Client:
    policy_draft.ensure_first_version()
    client.force_login(a_person("admin"))
    return client


def address(model: str, what: str = "changelist", *args: Any) -> str:
    return reverse(f"admin:toolcards_{model}_{what}", args=[quote(part) for part in args])


def shown(client: Client) -> dict[str, str]:
    """What the list's hidden fields say of the waiting call."""
    row = Approval.objects.select_related("call").get(state="pending")
    page = client.get(address("approval")).content.decode()
    assert f'name="rev-{row.pk}" value="{row.call.rev}"' in page
    return {"_selected_action": row.pk, f"rev-{row.pk}": str(row.call.rev), f"sha-{row.pk}": row.args_sha256}


@pytest.mark.parametrize("model", READ_ONLY)
def test_what_the_gate_wrote_is_only_read(admin: Client, a_call: Any, model: str) -> None:
    call = a_call("approval-requested", tool="Edit")
    pk = {"run": call.run_id, "toolcall": call.pk, "event": call.run.events.first().pk,
          "approval": Approval.objects.get().pk, "policyversion": PolicyVersion.objects.get().pk}[model]  # fmt: skip
    assert admin.get(address(model)).status_code == 200
    assert admin.get(address(model) + "?q=x").status_code == 200
    page = admin.get(address(model, "change", pk))
    assert page.status_code == 200 and b'name="_save"' not in page.content
    assert admin.post(address(model, "change", pk), {}).status_code == 403
    assert admin.get(address(model, "add")).status_code == 403
    assert admin.post(address(model, "delete", pk), {"post": "yes"}).status_code == 403


UNSEEN = "\u202e\u2800\u3164\x1b\u200b\u034f\ufe0f"


def _unseen_in(client: Client, url: str) -> set[str]:
    return set(UNSEEN) & set(client.get(url).content.decode())


def test_no_list_and_no_page_shows_a_character_that_cannot_be_seen_as_it_is(
    admin: Client, a_call: Any, key: AgentKey, a_person: Any, policy: Any
) -> None:
    policy({"default": "ask"})
    text = f"a{UNSEEN}b"
    call = a_call("approval-requested", tool=text, input={text: text}, call_id=text, run=text)
    with allow_log_writes():
        Run.objects.update(title=text, agent=text, reason=text)
        Approval.objects.update(reason=text, by_name=text)
    Source.objects.update(name=text)
    pks = {"run": call.run_id, "toolcall": call.pk, "event": call.run.events.first().pk,
           "approval": Approval.objects.get().pk, "agentkey": key.pk}  # fmt: skip
    for model, pk in pks.items():
        for url in (address(model), f"{address(model)}?q={text}", address(model, "change", pk)):
            page = re.sub(r"<input[^>]*>", "", admin.get(url).content.decode())  # what was searched for is in one
            assert not set(UNSEEN) & set(page), url
            assert model == "event" or "U+202E" in page, url
    person = a_person("viewer")
    User.objects.filter(pk=person.pk).update(username=text)
    admin.force_login(a_superuser())
    for url in (
        reverse("admin:auth_user_changelist"), reverse("admin:auth_user_delete", args=[person.pk]),
        address("source", "delete", Source.objects.get().pk), address("source", "history", Source.objects.get().pk),
    ):  # fmt: skip
        assert not _unseen_in(admin, url) and "U+202E" in admin.get(url).content.decode(), url


def test_a_field_keeps_what_it_holds_and_says_what_cannot_be_seen(admin: Client, source: Source) -> None:
    Source.objects.update(name=f"a{UNSEEN}b")
    page = admin.get(address("source", "change", source.pk)).content.decode()
    (field,) = re.findall(r'<input type="text" name="name"[^>]*>[^\n]*', page)
    assert f"a{UNSEEN}b" in field and "contains U+001B, U+034F, U+200B, U+202E, U+2800, U+3164, U+FE0F" in field


def a_superuser() -> User:
    return User.objects.create_superuser("root", password="a password for tests")


@pytest.mark.parametrize("model", READ_ONLY)
def test_lists_do_not_ask_more_for_more_rows(
    admin: Client, a_call: Any, model: str, django_assert_max_num_queries: Any
) -> None:
    for number in range(8):
        a_call("approval-requested", tool="Edit", call_id=f"call-{number}")
    with django_assert_max_num_queries(14):
        admin.get(address(model))


@pytest.mark.parametrize(("action", "state"), [("approve", "approved"), ("deny", "denied")])
def test_actions_answer_through_the_gate(admin: Client, a_call: Any, action: str, state: str) -> None:
    a_call("approval-requested", tool="Edit")
    admin.post(address("approval"), {"action": action, **shown(admin)})
    row = Approval.objects.get()
    assert (row.state, row.by_kind, row.by_name) == (state, "human", "a-admin")


def test_what_changed_since_the_list_was_shown_is_not_answered(admin: Client, a_call: Any) -> None:
    a_call("approval-requested", tool="Edit")
    old = shown(admin)
    old[f"rev-{old['_selected_action']}"] = "0"
    answer = admin.post(address("approval"), {"action": "approve", **old}, follow=True)
    assert Approval.objects.get().state == "pending"
    assert "has changed since you saw it" in answer.content.decode()


def test_hostile_input_is_escaped(admin: Client, a_call: Any) -> None:
    call = a_call("approval-requested", tool="Edit", input={"command": "<script>alert(1)</script>"})
    for url in (address("approval"), address("toolcall", "change", call.pk), address("event")):
        assert b"<script>alert" not in admin.get(url).content


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


def test_a_keys_secret_is_shown_once_and_kept_nowhere(admin: Client) -> None:
    answer = admin.post(address("agentkey", "add"), {"name": "robot", "scopes": ["ingest", "read"]})
    secret = answer.content.decode().split("data-secret>")[1].split("<")[0]
    key = AgentKey.objects.find_by_secret(secret)
    assert key is not None and key.scopes == "ingest read" and key.source.name == "robot"
    for url in (address("agentkey"), address("agentkey", "change", key.pk)):
        page = admin.get(url).content.decode()
        assert secret not in page and key.digest not in page
    admin.post(address("agentkey"), {"action": "revoke", "_selected_action": key.pk})
    assert AgentKey.objects.find_by_secret(secret) is None


def test_only_admins_come_in(a_person: Any, client: Client) -> None:
    client.force_login(a_person("approver"))
    assert client.get("/admin/").status_code == 302


def test_no_page_needs_inline_script_or_style(admin: Client, a_call: Any) -> None:
    a_call("approval-requested", tool="Edit")
    for model in (*READ_ONLY, "draftrule", "agentkey", "source"):
        page = admin.get(address(model)).content.decode()
        assert " style=" not in page and "<style" not in page and "onclick" not in page
