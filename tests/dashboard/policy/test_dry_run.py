"""Testing a call: the decision, the rule and each condition."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.support.policy_pages import save
from toolcards.models import PolicyVersion

pytestmark = pytest.mark.django_db


def test_trying_a_call_shows_the_verdict_the_rule_and_each_condition(admin: Client, first: PolicyVersion) -> None:
    answer = admin.post(
        "/policy/try/", {"tool": "Bash", "args": '{"command": "rm -rf build"}'}, headers={"HX-Request": "true"}
    )
    shown_text = answer.content.decode()
    assert (
        'data-verdict="ask"' in shown_text and 'data-rule="allow-looks"' in shown_text and "rm -rf build" in shown_text
    )
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
        trial_rules = [rule for rule in (*trial.winners, trial.nearest) if rule is not None and rule.rule == "no-edit"]
        assert [clause.value for clause in trial_rules[0].clauses if "file_path" in clause.condition] == [actual]


def test_trying_says_what_is_wrong_with_the_arguments(admin: Client, first: PolicyVersion) -> None:
    answer = admin.post("/policy/try/", {"tool": "Bash", "args": "{"})
    assert answer.status_code == 422 and "This is not JSON" in answer.content.decode()
