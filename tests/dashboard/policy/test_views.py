"""Policy pages: rules in sentences, the draft and its form, review and activation, trying calls, the way back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from toolcards import gate
from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.core.policy.language.description import describe_rule
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_draft, policy_store
from toolcards.models import DraftRule, PolicyVersion

pytestmark = pytest.mark.django_db
NOT_EMPTY = {"effect": "deny", "tool": "Bash", "reason": "No shell."}


@pytest.fixture
def admin(a_person: Any, client: Client) -> Client:
    client.force_login(a_person("admin"))
    return client


@pytest.fixture
def first(a_person: Any) -> PolicyVersion:
    version = policy_draft.ensure_first_version()
    assert version is not None
    return version


def save(client: Client, **fields: Any) -> Any:
    return client.post("/policy/rules/new/", NOT_EMPTY | fields)


def test_first_run_activates_the_starter_policy_and_copies_it_to_the_draft(db: None) -> None:
    version = policy_draft.ensure_first_version("deny")
    assert version is not None and (version.number, version.author, version.active) == (1, "setup", True)
    document = json.loads(version.document)
    assert document["default"] == "deny"
    assert policy_draft.load_draft() == document
    assert policy_draft.ensure_first_version() is None


FIRST = [
    (None, "Read", "allow"), (None, "frob", "ask"), (None, "Edit", "ask"), (None, "mcp__evil__view", "ask"),
    ("allow", "Read", "allow"), ("allow", "frob", "allow"), ("allow", "Edit", "ask"), ("allow",
    "mcp__evil__delete_it", "ask"),
    ("ask", "Read", "ask"), ("ask", "frob", "ask"), ("deny", "Read", "deny"), ("deny", "frob", "deny"), ("deny",
    "Edit", "ask"),
]  # fmt: skip


@pytest.mark.parametrize(("default", "tool", "effect"), FIRST)
def test_the_first_policy_has_the_default_that_was_set_also_for_unknown_tools(
    default: str | None, tool: str, effect: str, db: None
) -> None:
    policy_draft.ensure_first_version(default)
    assert decide(policy_store.get_active_policy(), PolicyRequest.for_tool(tool, known=False)).effect == effect


def test_the_page_says_the_model_and_every_rule_in_a_sentence(admin: Client, first: PolicyVersion) -> None:
    page = admin.get("/policy/").content.decode()
    assert "Deny beats ask, ask beats allow. If nothing matches: ask." in page
    for rule in policy_store.get_active_policy().rules:
        assert f'data-rule="{rule.id}"' in page
    assert ">Add rule</button>" in page


def test_a_saved_rule_is_in_the_draft_and_not_active(admin: Client, first: PolicyVersion) -> None:
    answer = save(admin)
    assert (answer.status_code, answer["Location"]) == (302, "/policy/draft/")
    assert policy_store.get_active_version_number() == 1
    rule = policy_draft.load_draft()["rules"][-1]
    assert (rule["effect"], rule["match"], rule["public_reason"]) == ("deny", {"tool": ["Bash"]}, "No shell.")
    page = admin.get("/policy/draft/").content.decode()
    assert 'data-change="added"' in page and "Deny when Bash is called." in page and ">Activate</button>" in page


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
        ({"rule_id": "ask-edit"}, "rule_id", "Another rule"),
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
    page = admin.get("/policy/rules/rul_push/")
    form = page.context["form"]
    by_name = {field.name: field.value() for field in form}
    assert by_name["value"] == "git push" and by_name["path"] == "/command"
    posted = {
        name: form.fields[name].prepare_value(value) for name, value in by_name.items() if value not in (None, "")
    }
    answer = admin.post("/policy/rules/rul_push/", posted)
    assert answer.status_code == 302, answer.context["form"].errors
    assert policy_draft.load_draft()["rules"] == [rule]


def test_off_and_watch_only_are_distinguished(admin: Client, first: PolicyVersion) -> None:
    save(admin, mode="monitor", rule_id="watching")
    save(admin, mode="off", rule_id="sleeping")
    rules = {rule["id"]: rule for rule in policy_draft.load_draft()["rules"]}
    assert rules["watching"]["mode"] == "monitor" and "enabled" not in rules["watching"]
    assert rules["sleeping"]["enabled"] is False


def test_rules_are_switched_and_removed(admin: Client, first: PolicyVersion) -> None:
    admin.post("/policy/rules/ask-edit/switch/", {"to": "off"})
    assert DraftRule.objects.get(rule_id="ask-edit").enabled is False
    admin.post("/policy/rules/ask-edit/remove/")
    assert not DraftRule.objects.filter(rule_id="ask-edit").exists()
    assert admin.post("/policy/rules/ask-edit/remove/").status_code == 404


def test_the_default_is_changed_in_the_draft(admin: Client, first: PolicyVersion) -> None:
    admin.post("/policy/draft/default/", {"default": "deny"})
    assert policy_draft.load_draft()["default"] == "deny" and policy_store.get_active_policy().default == "ask"


def test_the_agents_owner_may_approve_the_default_in_the_draft(admin: Client, first: PolicyVersion) -> None:
    policy_draft.update_draft_head({"default_ask": {"quorum": 1, "reauth": True}}, author="ann")
    fields: dict[str, Any] = {"quorum": 1, "reauth": True}
    for value, expected in (({"allow_requester": "on"}, fields | {"allow_requester": True}), ({}, fields)):
        admin.post("/policy/draft/default/", {"default": "ask"} | value)
        assert policy_draft.load_draft()["default_ask"] == expected
        page = admin.get("/policy/draft/").content.decode()
        assert ("may approve calls that no rule matches" in page) == ("allow_requester" in expected)
    policy_draft.update_draft_head({"default_ask": None}, author="ann")
    admin.post("/policy/draft/default/", {"default": "ask"})
    assert "default_ask" not in policy_draft.load_draft()


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_starter_policy_replaces_the_draft(admin: Client, first: PolicyVersion, name: str) -> None:
    assert admin.post(f"/policy/packs/{name}/").status_code == 302
    assert policy_draft.load_draft() == dict(PRESETS[name].document) and policy_store.get_active_version_number() == 1


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


def test_trying_a_call_shows_the_verdict_the_rule_and_each_condition(admin: Client, first: PolicyVersion) -> None:
    answer = admin.post(
        "/policy/try/", {"tool": "Bash", "args": '{"command": "rm -rf /"}'}, headers={"HX-Request": "true"}
    )
    shown_text = answer.content.decode()
    assert 'data-verdict="ask"' in shown_text and 'data-rule="ask-execute"' in shown_text and "rm -rf /" in shown_text
    assert "✓" in shown_text and "<html" not in shown_text


def test_trying_a_call_compares_with_the_draft_and_shows_the_nearest_miss(admin: Client, first: PolicyVersion) -> None:
    save(admin, tool="Edit", path="/file_path", op="path_under", value="/srv", rule_id="no-edit")
    answer = admin.post("/policy/try/", {"tool": "Edit", "args": '{"file_path": "/home/a"}'})
    active, draft = answer.context["results"]
    assert (active["trial"].effect, draft["trial"].effect) == ("ask", "ask")
    assert draft["trial"].nearest.rule == "no-edit"
    assert "Nearest miss" in answer.content.decode()


def test_a_tried_call_without_the_argument_of_a_rule_has_nothing_there(admin: Client, first: PolicyVersion) -> None:
    save(admin, tool="Edit", path="/file_path", op="path_under", value="/srv", rule_id="no-edit")
    for args, actual in (("{}", "nothing"), ('{"file_path": ""}', "an empty text"), ('{"file_path": "/a"}', "/a")):
        answer = admin.post("/policy/try/", {"tool": "Edit", "args": args})
        trial = answer.context["results"][1]["trial"]
        tried = [rule for rule in (*trial.winners, trial.nearest) if rule is not None and rule.rule == "no-edit"]
        assert [clause.value for clause in tried[0].clauses if "file_path" in clause.condition] == [actual]


def test_a_rule_about_effects_is_written_read_and_refused(admin: Client, first: PolicyVersion) -> None:
    save(admin, tool="Bash", path="/command", op="effect", value="deletes\r\nruns", rule_id="no-deletes")
    rule = policy_draft.load_draft()["rules"][-1]
    assert rule["match"]["args"] == [{"path": "/command", "op": "effect", "value": ["deletes", "runs"]}]
    assert describe_rule(parse({"rules": [rule]}).rules[0]) == "Deny when Bash.command deletes or runs other programs."
    assert "deletes\nruns" in admin.get("/policy/rules/no-deletes/").content.decode()
    answer = save(admin, tool="Bash", path="/command", op="effect", value="explodes", rule_id="x")
    assert answer.status_code == 422 and "xpects deletes, writes, sends, runs or none" in answer.content.decode()


def test_trying_says_what_is_wrong_with_the_arguments(admin: Client, first: PolicyVersion) -> None:
    answer = admin.post("/policy/try/", {"tool": "Bash", "args": "{"})
    assert answer.status_code == 422 and "This is not JSON" in answer.content.decode()


def test_hostile_text_of_rules_is_escaped_everywhere(admin: Client, first: PolicyVersion) -> None:
    hostile = "</p><script>alert(1)</script>\u202e"
    save(admin, reason=hostile, tool=hostile, rule_id="hostile")
    admin.post("/policy/draft/activate/", {"expected_active": 1, "note": hostile})
    for url in ("/policy/", "/policy/draft/", "/policy/versions/", "/policy/versions/2/", "/policy/rules/hostile/"):
        shown_text = admin.get(url).content.decode()
        assert "<script>alert" not in shown_text, url
    assert "U+202E" in admin.get("/policy/").content.decode()


def test_the_past_shows_what_the_draft_would_change_and_alarms_for_what_a_person_denied(
    admin: Client, first: PolicyVersion, a_call: Any
) -> None:
    a_call("output-denied", tool="Edit", input={"path": "a"})
    admin.post("/policy/packs/watch/")
    page = " ".join(admin.get("/policy/draft/").content.decode().split())
    assert "1 of 1 calls changes: 1 ask → allow" in page
    assert "data-alarm" in page and "1 call that a person denied would now be allowed" in page


def test_exported_and_imported_again_it_is_the_same(admin: Client, first: PolicyVersion) -> None:
    exported = admin.get("/policy/export/")
    assert exported["Content-Disposition"].startswith("attachment")
    admin.post("/policy/packs/watch/")
    assert admin.post("/policy/import/", {"document": exported.content.decode()}).status_code == 302
    assert policy_draft.load_draft() == json.loads(first.document)
    response = admin.post("/policy/import/", {"document": '{"v": 1, "rules": [{"effect": "maybe"}]}'})
    assert response.status_code == 422 and "/rules/0/effect" in response.content.decode()


def test_rule_ids_are_made_up_for_documents_without_them(admin: Client, first: PolicyVersion) -> None:
    policy_draft.replace_draft({"v": 1, "rules": [{"effect": "deny", "match": {"tool": "a"}}]}, author="a test")
    name = policy_draft.load_draft()["rules"][0]["id"]
    assert admin.get(f"/policy/rules/{name}/").status_code == 200


def test_without_any_policy_the_page_says_that_everything_is_denied(admin: Client) -> None:
    assert "every gated call is denied" in admin.get("/policy/").content.decode()


@pytest.mark.parametrize(("calls", "words"), [(1, "1 open call was denied."), (2, "2 open calls were denied.")])
def test_the_kill_switch_counts_the_calls_that_it_denied(
    client: Client, a_person: Any, a_call: Any, calls: int, words: str
) -> None:
    client.force_login(a_person("admin"))
    for number in range(calls):
        a_call("approval-requested", call_id=f"c{number}")
    page = client.post("/settings/killswitch/", {"to": "on", "reason": "a test"}, follow=True).content.decode()
    assert f"Every tool call is stopped. {words}" in page
