"""A rule as a form: it comes back as it was written, and errors are at their fields."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.policy_pages import read_fields, save
from tests.support.reviewers import MODEL, NAME
from toolcards.core.policy.language.description import describe_rule
from toolcards.core.policy.language.diff import compare_documents
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_draft
from toolcards.models import DraftRule, PolicyVersion

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"effect": "maybe"}, "effect", "Select a valid choice"),
        ({"path": "/command", "op": "re2", "value": "(?=x)"}, "value", "RE2"),
        ({"path": "a command", "op": "eq", "value": "1"}, "path", ""),
        ({"path": "/command", "value": "x"}, "op", "Choose an operator"),
        ({"op": "gt", "path": "/amount", "value": "many"}, "value", "number"),
        ({"advanced": "{"}, "advanced", "This is not JSON"),
        ({"advanced": "[1]"}, "advanced", "an object"),
        ({"advanced": '{"colour": "red"}'}, "advanced", "/colour"),
        ({"advanced": '{"match": {"when": {"tz": "Nowhere/City"}}}'}, "advanced", "time zone"),
        ({"advanced": '{"match": 1}'}, "advanced", "object"),
        ({"effect": "ask", "advanced": '{"ask": {"approvers": ["group:nobody"]}}'}, "advanced", "No one can approve"),
        ({"rule_id": "ask-delete"}, "rule_id", "Another rule"),
        ({"effect": "ask", "review": "no-one"}, "review", "No reviewer is named"),
    ],
)
def test_an_error_is_shown_at_its_field(
    admin: Client, first: PolicyVersion, fields: dict[str, Any], field: str, says: str
) -> None:
    answer = save(admin, **fields)
    assert answer.status_code == 422
    errors = answer.context["form"].errors
    assert list(errors) == [field] and says in " ".join(errors[field])
    shown_text = answer.content.decode()
    assert "errorlist" in shown_text and DraftRule.objects.count() == len(PRESETS["ask-on-writes"].document["rules"])


@pytest.mark.parametrize("name", ["/command", "command", "input.command", " command "])
def test_an_argument_has_a_pointer_or_just_its_name(admin: Client, first: PolicyVersion, name: str) -> None:
    assert save(admin, path=name, op="cmd", value="git push").status_code == 302
    condition = {"path": "/command", "op": "cmd", "value": "git push"}
    assert policy_draft.load_draft()["rules"][-1]["match"]["args"] == [condition]


def test_a_rule_keeps_its_reviewer_and_its_row_names_it(admin: Client, first: PolicyVersion) -> None:
    policy_draft.update_draft_head({"reviewers": {NAME: MODEL}}, author="a test")
    save(admin, effect="ask", tool="make", review=NAME, rule_id="made")
    assert policy_draft.load_draft()["rules"][-1]["review"] == NAME
    assert f"reviewed first by {NAME}" in admin.get("/policy/").content.decode()
    assert f'value="{NAME}"' in admin.get("/policy/rules/made/").content.decode()


def test_a_rule_survives_the_way_through_its_form(admin: Client, first: PolicyVersion) -> None:
    rule = {
        "id": "rul_push", "effect": "ask", "severity": "high", "public_reason": "Pushing needs a person.",
        "match": {
            "tool": ["bash", "git_*"], "kind": ["execute"], "agent": ["release-*"], "agent_scope": "any_in_path",
            "args": [{"path": "/command", "op": "cmd", "value": "git push"}], "rate": {"over": 5, "per": "10m"},
        },
        "unless": [{"args": [{"path": "/command", "op": "eq", "value": "git push --dry-run"}]}],
        "ask": {"quorum": 1, "editable": ["/message"]},
    }  # fmt: skip
    policy_draft.replace_draft({"v": 1, "rules": [rule]}, author="a test")
    fields = read_fields(admin, "rul_push")
    assert fields["value"] == "git push" and fields["path"] == "/command"
    answer = admin.post("/policy/rules/rul_push/", fields)
    assert answer.status_code == 302, answer.context["form"].errors
    assert policy_draft.load_draft()["rules"] == [rule]


@pytest.mark.parametrize("name", list(PRESETS))
def test_saving_a_rule_of_a_starter_unchanged_changes_nothing(admin: Client, first: PolicyVersion, name: str) -> None:
    document = dict(PRESETS[name].document)
    policy_draft.replace_draft(document, author="a test")
    for rule in document["rules"]:
        answer = admin.post(f"/policy/rules/{rule['id']}/", read_fields(admin, rule["id"]))
        assert answer.status_code == 302, answer.context["form"].errors
    assert compare_documents(document, policy_draft.load_draft()) == []


def test_off_and_watch_only_are_distinguished(admin: Client, first: PolicyVersion) -> None:
    save(admin, mode="monitor", rule_id="watching")
    save(admin, mode="off", rule_id="sleeping")
    rules = {rule["id"]: rule for rule in policy_draft.load_draft()["rules"]}
    assert rules["watching"]["mode"] == "monitor" and "enabled" not in rules["watching"]
    assert rules["sleeping"]["enabled"] is False


def test_a_rule_about_effects_is_written_read_and_refused(admin: Client, first: PolicyVersion) -> None:
    save(admin, tool="Bash", path="/command", op="effect", value="deletes\r\nruns", rule_id="no-deletes")
    rule = policy_draft.load_draft()["rules"][-1]
    assert rule["match"]["args"] == [{"path": "/command", "op": "effect", "value": ["deletes", "runs"]}]
    assert describe_rule(parse({"rules": [rule]}).rules[0]) == "Deny when Bash.command deletes or runs other programs."
    assert "deletes\nruns" in admin.get("/policy/rules/no-deletes/").content.decode()
    answer = save(admin, tool="Bash", path="/command", op="effect", value="explodes", rule_id="x")
    assert answer.status_code == 422 and "xpects deletes, writes, sends, runs" in answer.content.decode()
