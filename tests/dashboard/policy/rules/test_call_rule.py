"""Rules made from a call: what they match, and what they change."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard.policy.rules import call_rule
from dashboard.policy.simulation.past_calls import Span, iterate_past_calls
from tests.support.policy_pages import HX, rungs
from toolcards.core.policy.decision import decide
from toolcards.core.policy.language.document import parse
from toolcards.gate import policy_draft, policy_store
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db


def test_a_rule_for_this_run_meets_no_other(admin: Client, policy: Any, a_call: Any) -> None:
    policy("watch")
    call = a_call(tool="Bash", input={"command": "git push"}, run="this, and *that*")
    plain = a_call(tool="Bash", input={"command": "git push"}, run="plain", call_id="c2")
    assert rule_from(call, scope="run")["match"].get("run") is None  # a * in the name would mean other runs
    rule = rule_from(plain, scope="run", effect="deny")
    assert rule["match"]["run"] == ["plain"] and "agent" not in rule["match"]
    compiled = parse({"v": 1, "default": "allow", "rules": [rule | {"id": "x"}]})
    decision = {
        past_call.question.run: decide(compiled, past_call.question).effect
        for past_call in iterate_past_calls(Span(days=0))
    }
    assert decision == {"plain": "deny", "this, and *that*": "allow"}


def rule_from(call: ToolCall, **expected_text: str) -> dict[str, Any]:
    call = ToolCall.objects.select_related("run", "run__source").get(pk=call.pk)
    return call_rule.build_rule(call, call.as_card(), expected_text)


def test_the_ladder_tells_live_what_the_choice_would_change(admin: Client, policy: Any, a_call: Any) -> None:
    policy("watch")
    for number in range(4):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": "git push"}, run="this" if number else "other")
    url = f"/calls/{ToolCall.objects.get(run__name='other').public_id}/rule/"
    chosen = {"rung": "tool", "effect": "deny", "expiry": "1h"}
    one = admin.get(url, chosen | {"scope": "run"}, headers=HX).content.decode()
    assert 'data-blast="1"' in one and "1 of 4 calls changes: 1 allow → deny" in one and "<html" not in one
    every = admin.get(url, chosen | {"scope": "all"}, headers=HX).content.decode()
    assert 'data-blast="4"' in every
    page = " ".join(
        admin.get(url, chosen | {"scope": "all"}).content.decode().split()
    )  # without scripts the page itself tells it
    assert 'data-blast="4"' in page and 'value="tool" checked' in page and 'value="all" checked' in page
    assert policy_store.get_active_policy().version == 1 and not policy_draft.load_draft()["rules"]


def test_the_ladder_warns_if_a_denied_call_would_be_allowed(admin: Client, a_call: Any) -> None:
    call = a_call("output-denied", tool="Edit", input={"path": "a"})
    policy_draft.replace_draft({"v": 1, "default": "ask", "rules": []}, author="a test")
    fields = {"rung": "exact", "effect": "allow", "scope": "all"}
    piece = admin.get(f"/calls/{call.public_id}/rule/", fields, headers=HX).content.decode()
    assert 'data-alarm="opened"' in piece


@pytest.mark.parametrize("rung", ["exact", "command", "words", "program", "tool", "kind", "nonsense"])
@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_a_rung_fills_in_the_form_and_the_rule_meets_the_call(
    admin: Client, policy: Any, a_call: Any, rung: str, effect: str
) -> None:
    policy("watch")
    line = (
        "git log origin" if effect == "allow" else "git push origin"
    )  # what only looks can be allowed by its beginning
    call = a_call(tool="Bash", input={"command": line, "timeout": 5})
    chosen = {"from": call.public_id, "rung": rung, "effect": effect, "scope": "agent", "expiry": "1h"}
    form = admin.get("/policy/rules/new/", chosen).context["form"]
    by_name = {field.name: field.value() for field in form}
    posted = {
        name: form.fields[name].prepare_value(value) for name, value in by_name.items() if value not in (None, "")
    }
    answer = admin.post("/policy/rules/new/", posted)
    assert answer.status_code == 302, answer.context["form"].errors
    rule = policy_draft.load_draft()["rules"][-1]
    assert rule["effect"] == effect and "expires_at" in rule and rule["match"]["agent"]
    question = next(iterate_past_calls(Span(days=0))).question
    assert question is not None
    strict = parse({"v": 1, "default": "ask", "rules": [rule]})
    assert decide(strict, question).effect == effect


def test_a_rule_from_a_force_push_covers_every_spelling(admin: Client, policy: Any, a_call: Any) -> None:
    policy("watch")
    forced = ["git push --force", "git push -f origin main", "git push --force-with-lease", "git push origin +main"]
    for number, line in enumerate([*forced, "git push origin main", "git status"]):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": line})
    call = ToolCall.objects.get(call_id="c0")
    assert rungs(admin, call)["deletes"] == len(forced)
    chosen = {"from": call.public_id, "rung": "deletes", "effect": "deny", "scope": "all", "expiry": "never"}
    page = admin.get("/policy/rules/new/", chosen)
    assert page.context["sentence"] == "Deny when Bash.command runs the command “git push” and input.command deletes."
    form = page.context["form"]
    posted = {field.name: field.value() for field in form}
    answer = admin.post(
        "/policy/rules/new/",
        {name: form.fields[name].prepare_value(value) for name, value in posted.items() if value not in (None, "")},
    )
    assert answer.status_code == 302, answer.context["form"].errors
    rules = parse({"v": 1, "default": "allow", "rules": [policy_draft.load_draft()["rules"][-1]]})
    denied = [call.question.input for call in iterate_past_calls(Span(days=0)) if call.question
              and decide(rules, call.question).effect == "deny"]  # fmt: skip
    assert sorted(arguments["command"] for arguments in denied) == sorted(forced)
    assert policy_draft.load_draft()["rules"][-1]["id"] == "deny-git-push-deletes"
    next_form = admin.get("/policy/rules/new/", chosen).context["form"]
    assert next_form.initial["rule_id"] == "deny-git-push-deletes-2"


def test_a_new_rule_can_start_from_the_calls_that_needed_approval(admin: Client, a_call: Any) -> None:
    for number in range(3):
        a_call("approval-requested", call_id=f"c{number}", tool="Bash", input={"command": f"git push {number % 2}"})
    calls = [ToolCall.objects.get(call_id=f"c{number}") for number in (1, 2)]  # of equal ones, the newest
    page = admin.get("/policy/rules/new/").content.decode()
    assert page.count("/rule/") == 2 and all(f"/calls/{call.public_id}/rule/" in page for call in calls)


def test_a_rule_from_no_call_is_an_empty_form(admin: Client) -> None:
    policy_draft.ensure_first_version()
    for expected in ("9-9", "x", "1-" + "9" * 40, "-"):
        assert admin.get("/policy/rules/new/", {"from": expected, "rung": "exact"}).status_code == 200
