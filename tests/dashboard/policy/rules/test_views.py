"""Rules of the draft: saving, switching and removing them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from django.test import Client

from tests.support.policy_pages import save
from toolcards.core.policy.language.diff import compare_documents
from toolcards.gate import policy_draft, policy_store
from toolcards.models import DraftRule, PolicyVersion

pytestmark = pytest.mark.django_db


def encode(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a form as a browser sends them."""
    return values | {
        "tool": ", ".join(values["tool"]), "source": ", ".join(values["source"]), "agent": ", ".join(values["agent"]),
        "advanced": json.dumps(values["advanced"]) if values["advanced"] else "",
    }  # fmt: skip


def test_a_saved_rule_is_in_the_draft_and_not_active(admin: Client, first: PolicyVersion) -> None:
    answer = save(admin)
    assert (answer.status_code, answer["Location"]) == (302, "/policy/")
    assert policy_store.get_active_version_number() == 1
    rule = policy_draft.load_draft()["rules"][-1]
    assert (rule["effect"], rule["match"], rule["public_reason"]) == ("deny", {"tool": ["Bash"]}, "No shell.")
    page = admin.get("/policy/").content.decode()
    assert 'data-change="added"' in page and "Deny when Bash is called." in page and ">Activate</button>" in page


def test_rules_are_switched_and_removed(admin: Client, first: PolicyVersion) -> None:
    admin.post("/policy/rules/ask-delete/switch/", {"to": "off"})
    assert DraftRule.objects.get(rule_id="ask-delete").enabled is False
    admin.post("/policy/rules/ask-delete/remove/")
    assert not DraftRule.objects.filter(rule_id="ask-delete").exists()
    assert admin.post("/policy/rules/ask-delete/remove/").status_code == 404


def test_the_effect_of_a_sentence_is_changed_in_its_place(admin: Client, first: PolicyVersion) -> None:
    assert admin.post("/policy/rules/ask-delete/effect/", {"effect": "deny"}).status_code == 302
    rule = next(rule for rule in policy_draft.load_draft()["rules"] if rule["id"] == "ask-delete")
    assert (rule["effect"], rule["match"]) == ("deny", {"kind": ["delete"]})
    assert policy_store.get_active_version_number() == 1
    page = admin.get("/policy/").content.decode()
    assert 'data-changes="1"' in page and "<del>Ask when the tool’s kind is delete.</del>" in page
    response = admin.post("/policy/rules/ask-delete/effect/", {"effect": "maybe"})
    assert response.status_code == 422 and "ask-delete was not changed" in response.content.decode()
    assert admin.post("/policy/rules/none/effect/", {"effect": "deny"}).status_code == 404


def test_an_effect_that_could_never_decide_is_refused_with_the_rule_that_wins(
    admin: Client, first: PolicyVersion
) -> None:
    match = {"tool": ["Bash"]}
    rules = [{"id": "no-shell", "effect": "deny", "match": match}, {"id": "shell", "effect": "deny", "match": match}]
    policy_draft.replace_draft({"v": 1, "rules": rules}, author="a test")
    response = admin.post("/policy/rules/shell/effect/", {"effect": "allow"})
    assert response.status_code == 422 and "since no-shell would win each time" in response.content.decode()
    assert [rule["effect"] for rule in policy_draft.load_draft()["rules"]] == ["deny", "deny"]


@pytest.mark.parametrize("change", ["added", "changed", "removed"])
def test_each_change_of_a_rule_is_marked_and_taken_back_alone(admin: Client, first: PolicyVersion, change: str) -> None:
    name = "mine" if change == "added" else "ask-delete"
    if change == "added":
        save(admin, rule_id=name)
    else:
        admin.post(f"/policy/rules/{name}/{'effect' if change == 'changed' else 'remove'}/", {"effect": "deny"})
    admin.post("/policy/rules/ask-secrets/switch/", {"to": "off"})
    page = " ".join(admin.get("/policy/").content.decode().split())
    assert f'data-rule="{name}" data-change="{change}"' in page and 'data-changes="2"' in page
    assert admin.post(f"/policy/rules/{name}/restore/").status_code == 302
    page = " ".join(admin.get("/policy/").content.decode().split())
    assert f'data-rule="{name}" data-change' not in page and 'data-changes="1"' in page
    assert admin.post("/policy/rules/none/restore/").status_code == 404
    admin.post("/policy/versions/1/copy/")
    assert "data-changes" not in admin.get("/policy/").content.decode()


def test_a_rule_that_changed_while_it_was_edited_is_replaced_only_on_purpose(
    admin: Client, first: PolicyVersion
) -> None:
    path = "/policy/rules/ask-delete/"
    mine, theirs = (admin.get(path).context["form"].initial for _ in range(2))
    assert admin.post(path, encode(theirs | {"effect": "deny"})).status_code == 302
    response = admin.post(path, encode(mine | {"reason": "My reason"}))
    page = response.content.decode()
    assert response.status_code == 409 and "has changed since you opened it" in page and "My reason" in page
    assert DraftRule.objects.get(rule_id="ask-delete").effect == "deny"
    again = mine | {"reason": "My reason", "based_on": response.context["form"]["based_on"].value()}
    assert admin.post(path, encode(again)).status_code == 302
    assert policy_draft.build_rule_document(DraftRule.objects.get(rule_id="ask-delete"))["public_reason"] == "My reason"


def test_a_rule_that_was_removed_while_it_was_edited_can_be_added_again(admin: Client, first: PolicyVersion) -> None:
    path = "/policy/rules/ask-delete/"
    mine = admin.get(path).context["form"].initial | {"reason": "My reason"}
    admin.post(f"{path}remove/")
    response = admin.post(path, encode(mine))
    page = response.content.decode()
    assert response.status_code == 409 and "no longer in the draft" in page and 'action="/policy/rules/new/"' in page
    assert not DraftRule.objects.filter(rule_id="ask-delete").exists()
    assert admin.post("/policy/rules/new/", encode(mine)).status_code == 302
    assert DraftRule.objects.filter(rule_id="ask-delete").exists()


SHELL_IS_ASKED = {"default": "allow", "rules": [
    {"id": "ask-execute", "effect": "ask", "match": {"kind": ["execute"]}},
    {"id": "no-mail", "effect": "deny", "match": {"tool": ["send_mail"]}},
]}  # fmt: skip
MAKE = {"effect": "allow", "tool": "", "reason": "", "path": "/command", "op": "cmd", "value": "make test"}


def test_a_rule_that_can_never_win_is_refused_with_the_rule_that_beats_it(admin: Client, first: PolicyVersion) -> None:
    policy_draft.replace_draft(SHELL_IS_ASKED, author="root")
    answer = save(admin, **MAKE)
    page = answer.content.decode()
    assert answer.status_code == 422 and "would have no effect" in page and "<code>Bash make test</code>" in page
    assert 'href="/policy/rules/ask-execute/"' in page and 'value="exception"' in page and 'value="anyway"' in page
    assert DraftRule.objects.count() == 2


def test_a_beaten_rule_is_saved_as_an_exception_of_the_rule_that_beats_it(admin: Client, first: PolicyVersion) -> None:
    policy_draft.replace_draft(SHELL_IS_ASKED, author="root")
    assert save(admin, **MAKE, resolve="exception").status_code == 302
    asks, _, added = policy_draft.load_draft()["rules"]
    assert asks["unless"] == [added["match"]] and added["effect"] == "allow"
    assert policy_draft.find_rule_winners(added, instead_of=added["id"]) is None


def test_a_beaten_rule_is_saved_anyway_on_purpose(admin: Client, first: PolicyVersion) -> None:
    policy_draft.replace_draft(SHELL_IS_ASKED, author="root")
    assert save(admin, **MAKE, resolve="anyway").status_code == 302
    assert "unless" not in policy_draft.load_draft()["rules"][0] and DraftRule.objects.count() == 3


def test_no_press_makes_an_exception_of_a_rule_that_denies(admin: Client, first: PolicyVersion) -> None:
    policy_draft.replace_draft(SHELL_IS_ASKED, author="root")
    fields = {"effect": "allow", "tool": "send_mail", "reason": ""}
    for resolve in ("", "exception"):
        answer = save(admin, **fields, resolve=resolve)
        assert answer.status_code == 422 and 'value="exception"' not in answer.content.decode()
    assert policy_draft.load_draft()["rules"] == SHELL_IS_ASKED["rules"]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_changed_undoing_each_change_gives_the_active_version(
    admin: Client, first: PolicyVersion, seed: int
) -> None:
    active, chance = json.loads(first.document), random.Random(seed)
    for _ in range(3):
        for _ in range(chance.randint(1, 6)):
            rule, act = (
                chance.choice(["ask-delete", "deny-harms", "mine"]),
                chance.choice(["effect", "remove", "switch"]),
            )
            if rule == "mine":
                save(admin, rule_id=rule)
            values = {"effect": chance.choice(["deny", "ask", "allow"]), "to": chance.choice(["on", "off"])}
            admin.post(f"/policy/rules/{rule}/{act}/", values)
        for change in compare_documents(active, policy_draft.load_draft()):
            assert admin.post(f"/policy/rules/{change.name}/restore/").status_code == 302
        assert compare_documents(active, policy_draft.load_draft()) == []
        assert "data-changes" not in admin.get("/policy/").content.decode()
