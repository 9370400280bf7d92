"""From calls to policy and back: blast radius, simulations, why a call was denied, a rule from a call, YAML."""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

import pytest
from django.test import Client

from dashboard.policy.rules import call_rule, suggestions
from dashboard.policy.simulation import jobs
from dashboard.policy.simulation.past_calls import Span, iterate_calls_of_tool_first, iterate_past_calls
from dashboard.policy.text import yaml_io
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.core.policy.decision import decide
from toolcards.core.policy.language.document import PolicyError, parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_draft, policy_store
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_jobs_of_others(db: None) -> None:
    """Files outlive a test's database."""
    shutil.rmtree(jobs.get_folder())


PUSH = {"id": "no-push", "effect": "deny", "public_reason": "No pushing.",
        "match": {"args": [{"path": "/command", "op": "cmd", "value": "git push"}]}}  # fmt: skip
HX = {"HX-Request": "true"}
SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


@pytest.fixture
def admin(a_person: Any, client: Client) -> Client:
    client.force_login(a_person("admin"))
    return client


@pytest.fixture
def denied(policy: Any, source: Any, a_run: Any) -> ToolCall:
    policy({"default": "allow", "rules": [PUSH]})
    request = gate.DecisionRequest(run="r", call_id="c", tool="Bash", args={"command": "git push", "token": SECRET})
    assert gate.decide(source, request)["decision"] == "deny"
    return ToolCall.objects.get(call_id="c")


def send(client: Client, body: Any) -> Any:
    return client.post("/api/v1/policy/simulate", json.dumps(body), "application/json")


# ---------------------------------------------------------------- blast radius


def test_the_draft_shows_shapes_with_real_calls_and_both_alarms(admin: Client, policy: Any, a_call: Any) -> None:
    policy({"default": "ask"})
    no = a_call("output-denied", call_id="c1", tool="Edit", input={"path": "a"})
    yes = a_call("approval-responded", call_id="c2", tool="Bash", input={"command": "git push"})
    policy_draft.replace_draft({"v": 1, "default": "allow", "rules": [PUSH]}, author="a test")
    page = admin.get("/policy/draft/").content.decode()
    assert "2 of 2 calls change: " in page and "1 ask → allow" in page and "1 ask → deny" in page
    assert 'data-alarm="opened"' in page and 'data-alarm="closed"' in page
    assert f"/calls/{no.public_id}/" in page and f"/calls/{yes.public_id}/" in page


def test_a_simulation_is_begun_looked_at_and_goes_stale(admin: Client, policy: Any, a_call: Any) -> None:
    policy("watch")
    a_call(tool="Bash", input={"command": "git push"})
    policy_draft.replace_draft({"v": 1, "default": "allow", "rules": [PUSH]}, author="a test")
    review = policy_draft.load_draft()
    from dashboard.policy.view_models import review_draft as reviewed

    span = jobs.Span(calls=1000, days=0)
    job = jobs.create_job(review, draft=reviewed().sha256, active=1, span=span, author="a-admin")
    going = admin.get(f"/policy/simulations/{job.id}/", headers=HX).content.decode()
    assert 'hx-trigger="every 500ms"' in going and "<progress" in going and "<html" not in going
    assert "Refresh" in admin.get(f"/policy/simulations/{job.id}/").content.decode()
    jobs.run_job(job.id)
    response = admin.get(f"/policy/simulations/{job.id}/", headers=HX).content.decode()
    assert (
        "1 of 1 calls changes: 1 allow → deny" in response
        and "hx-trigger" not in response
        and "data-stale" not in response
    )
    assert "Checked 1 call\n" in admin.get("/policy/draft/").content.decode()
    policy_draft.remove_rule("no-push")
    assert "data-stale" in admin.get(f"/policy/simulations/{job.id}/", headers=HX).content.decode()


def test_only_those_who_edit_policy_simulate(a_person: Any, client: Client) -> None:
    client.force_login(a_person("approver"))
    assert client.post("/policy/draft/simulate/", {"calls": "1000", "days": "7"}).status_code == 403
    assert client.get("/policy/simulations/sim_x/").status_code == 403
    assert client.get("/policy/draft/text/").status_code == 403


def test_a_simulation_that_never_was_is_not_found(admin: Client) -> None:
    assert admin.get("/policy/simulations/sim_never/").status_code == 404


# ---------------------------------------------------------------- for programs


def test_programs_filter_the_past_and_ask_why(admin: Client, denied: ToolCall, a_call: Any) -> None:
    a_call(call_id="other", tool="Read", input={"path": "a"}, run="r2")
    body = {
        "document": {"v": 1, "default": "allow", "rules": []},
        "filter": {"tool": "Bash", "limit": 10},
        "explain": True,
    }
    result = send(admin, body).json()
    assert result["summary"] == {"calls": 1, "unknown": 0, "changed": 1, "changes": {"deny → allow": 1}}
    call = result["calls"][0]
    assert (call["call_id"], call["old"]["rule"], call["new"]["decision"]) == ("c", "no-push", "allow")
    assert result["groups"] == [{"tool": "Bash", "old": "deny", "new": "allow", "rule": "no-push", "count": 1}]
    assert SECRET not in json.dumps(result)
    pulled = PUSH | {"match": {"tool": ["Bash"], "args": [{"path": "/command", "op": "cmd", "value": "git pull"}]}}
    near = send(admin, body | {"document": {"v": 1, "default": "allow", "rules": [pulled]}}).json()["calls"][0]
    assert near["near_miss"]["rule"] == "no-push" and "/command" in near["near_miss"]["condition"]


def test_every_call_is_listed_on_request(admin: Client, denied: ToolCall) -> None:
    same = {"document": {"v": 1, "default": "allow", "rules": [PUSH]}}
    assert send(admin, same).json()["calls"] == []
    listed = send(admin, same | {"all": True}).json()["calls"]
    assert [(call["changed"], call["matched"]) for call in listed] == [(False, ["no-push"])]


@pytest.mark.parametrize(("value", "pointer"), [
    ({"filter": {"colour": "red"}}, "/filter/colour"), ({"filter": {"limit": "many"}}, "/limit"),
    ({"filter": {"tool": 1}}, "/filter/tool"), ({"filter": {"since": "yesterday"}}, "/filter/since"),
    ({"filter": {"since": "2027-01-01T00:00:00"}}, "/filter/since"),
    ({"filter": []}, None), ({"filter": [1]}, "/filter"),
    ({"limit": True}, "/limit"), ({"filter": {"since": -5}}, "/filter/since"),
])  # fmt: skip
def test_a_filter_that_means_nothing_is_refused(admin: Client, value: Any, pointer: str | None) -> None:
    policy_draft.ensure_first_version()
    answer = send(admin, {"document": {"v": 1, "rules": []}, **value})
    result = answer.json()["error"]["detail"]["findings"][0]["pointer"] if answer.status_code == 422 else None
    assert result == pointer and answer.status_code in (200, 422)


# ---------------------------------------------------------------- why


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
    no = a_call("output-denied", tool="Edit", input={"path": "a"})
    assert "Denied by ann." in admin.get(f"/calls/{no.public_id}/why/").content.decode()
    seen = a_call("output-available", tool="Edit", call_id="seen", run="seen")
    assert "Not evaluated by policy" in admin.get(f"/calls/{seen.public_id}/why/").content.decode()
    assert admin.get("/calls/999-9/why/").status_code == 404


def test_viewers_may_ask_why_and_make_no_rules(client: Client, a_person: Any, denied: ToolCall) -> None:
    client.force_login(a_person("viewer"))
    assert client.get(f"/calls/{denied.public_id}/why/").status_code == 200
    assert client.get(f"/calls/{denied.public_id}/rule/").status_code == 403
    assert "Rule from this call" not in client.get(f"/calls/{denied.public_id}/").content.decode()


# ---------------------------------------------------------------- a rule from a call


def rungs(client: Client, call: ToolCall) -> dict[str, int]:
    answer = client.get(f"/calls/{call.public_id}/rule/")
    assert answer.status_code == 200
    return {rung.name: rung.count for rung in answer.context["ladder"].rungs}


def test_the_ladder_counts_past_calls_from_narrow_to_broad(admin: Client, a_call: Any) -> None:
    for number, command in enumerate(("git push origin", "git push", "git status", "git push origin", "$X push")):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": command, "description": f"{number}"})
    tool_call = rungs(admin, ToolCall.objects.get(call_id="c0"))
    assert tool_call == {"exact": 1, "command": 2, "words": 3, "program": 4, "tool": 5, "kind": 5}
    assert list(tool_call) == ["exact", "command", "words", "program", "tool", "kind"]


def test_the_ladder_tells_the_calls_of_this_run_from_those_of_all(admin: Client, a_call: Any) -> None:
    for number in range(3):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": "git push"}, run="other" if number else "this")
    tool_call = admin.get(f"/calls/{ToolCall.objects.get(run__name='this').public_id}/rule/").context["ladder"].rungs
    assert {(rung.count, rung.in_run) for rung in tool_call if rung.name == "exact"} == {(3, 1)}


def test_the_ladder_counts_calls_of_the_tool_on_a_busy_server(
    admin: Client, policy: Any, a_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest calls of all tools hold none of this one, and there is no time to read more than those."""
    policy("watch")
    refund = f.InputReady("c0", "refund", {"amount": 5}, True)
    a_run("this", refund)
    a_run("other", refund)
    a_run("busy", *(f.InputReady(f"c{number}", "Read", {"path": f"{number}"}, True) for number in range(600)))
    call = ToolCall.objects.select_related("run", "run__source").get(run__name="this")
    order = [past_call.tool for past_call in iterate_calls_of_tool_first(call, Span(calls=10))]
    assert order == ["refund"] * 2 + ["Read"] * 8
    monkeypatch.setattr(suggestions, "LOOKED_AT", Span(calls=10, days=30))
    answer = admin.get(f"/calls/{call.public_id}/rule/", {"rung": "exact", "effect": "deny", "scope": "all"})
    exact = next(rung for rung in answer.context["ladder"].rungs if rung.name == "exact")
    assert (exact.count, exact.in_run) == (2, 1) and answer.context["ladder"].examined == 10


def test_calls_of_the_run_come_before_newer_ones_of_the_tool(a_run: Any) -> None:
    a_run("this", *(f.InputReady(f"c{number}", "Bash", {"command": f"{number}"}, True) for number in range(3)))
    a_run("busy", *(f.InputReady(f"c{number}", "Bash", {"command": f"{number}"}, True) for number in range(5)))
    call = ToolCall.objects.get(run__name="this", call_id="c1")
    past_calls = list(iterate_calls_of_tool_first(call, Span(calls=6)))
    assert [past_call.question.run for past_call in past_calls] == ["this"] * 3 + ["busy"] * 3
    assert len({past_call.pk for past_call in iterate_calls_of_tool_first(call, Span())}) == 8


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


@pytest.mark.parametrize(("tool", "value", "names"), [
    ("Edit", {"file_path": "/srv/app/a.py", "old": "x"}, ["exact", "path", "folder", "tool", "kind"]),
    ("Edit", {"file_path": "/srv/../a.py"}, ["exact", "tool", "kind"]),
    ("WebFetch", {"url": "https://example.org/a?b", "prompt": "x"}, ["exact", "url", "host", "tool", "kind"]),
    ("Bash", {"command": "echo $(id)"}, ["exact", "tool", "kind"]),
    ("Bash", {"command": "git status && rm -rf x"}, ["exact", "words", "program", "tool", "kind"]),
    ("Bash", {"command": "git push -f"}, ["exact", "deletes", "words", "program", "tool", "kind"]),
    ("Bash", {"command": "curl", "token": SECRET}, ["tool", "kind"]),
    ("mystery", [1, 2], ["exact", "tool"]),
    ("any*", {"a": 1}, []),
])  # fmt: skip
def test_each_kind_of_call_has_its_rungs(admin: Client, a_call: Any, tool: str, value: Any, names: list[str]) -> None:
    assert list(rungs(admin, a_call(tool=tool, input=value))) == names


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


def test_a_rung_says_what_an_allow_rule_does_not_cover(admin: Client, a_call: Any) -> None:
    call = a_call(tool="Bash", input={"command": "awk -f prog f && cat f"})
    words = {rung.name: rung.words for rung in admin.get(f"/calls/{call.public_id}/rule/").context["ladder"].rungs}
    assert "awk can run other programs" in words["program"] and "harmless forms" in words["program"]
    harmless = a_call(tool="Bash", input={"command": "cat f | wc -l"}, call_id="c2")
    words = {rung.name: rung.words for rung in admin.get(f"/calls/{harmless.public_id}/rule/").context["ladder"].rungs}
    assert words["program"] == "commands that start with “cat” or “wc”"


def test_a_rule_from_no_call_is_an_empty_form(admin: Client) -> None:
    policy_draft.ensure_first_version()
    for expected in ("9-9", "x", "1-" + "9" * 40, "-"):
        assert admin.get("/policy/rules/new/", {"from": expected, "rung": "exact"}).status_code == 200


# ---------------------------------------------------------------- as text


def text(client: Client, expected_text: str, **more: str) -> Any:
    based_on = client.get("/policy/draft/text/").context["based_on"]
    return client.post("/policy/draft/text/", {"text": expected_text, "based_on": based_on, "what": "save", **more})


@pytest.mark.parametrize("name", list(PRESETS))
def test_the_draft_as_text_and_back_is_the_same(admin: Client, name: str) -> None:
    policy_draft.replace_draft(json.loads(json.dumps(dict(PRESETS[name].document))), author="a test")
    before = policy_draft.load_draft()
    response = admin.get("/policy/draft/text/").context["text"]
    assert text(admin, response).status_code == 302 and policy_draft.load_draft() == before


def test_what_is_wrong_is_said_with_its_line(admin: Client) -> None:
    policy_draft.ensure_first_version()
    before = policy_draft.load_draft()
    said = "v: 1\nrules:\n  - effect: deny\n    match:\n      args:\n        - path: /a\n          op: like\n"
    answer = text(admin, said)
    remark = answer.context["remarks"][0]
    assert (answer.status_code, remark.line, remark.finding.pointer) == (422, 7, "/rules/0/match/args/0/op")
    page = answer.content.decode()
    assert "Line 7" in page and "op: like" in page and policy_draft.load_draft() == before


@pytest.mark.parametrize("expected_text", [
    "a: &x 1\nb: *x", "a: !!python/object:os.system x", "default: ask\ndefault: allow", "1: 2", "[[1]]: 2",
    "a: 1\n---\nb: 2", "a: [", "\t- x", "[" * 5000, "<<: {a: 1}", "x: \x00", "null", "- 1", "''",
    "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", "{" * 5000, "? {a: 1}\n: 2",
])  # fmt: skip
def test_text_that_is_no_policy_is_refused_and_nothing_is_lost(admin: Client, expected_text: str) -> None:
    policy_draft.ensure_first_version()
    before = policy_draft.load_draft()
    refusal = 400 if "\x00" in expected_text else 422  # a NUL is refused at the door
    answer = text(admin, expected_text)
    assert answer.status_code == refusal and policy_draft.load_draft() == before
    imported = admin.post("/policy/import/", {"document": expected_text})
    assert imported.status_code == refusal and policy_draft.load_draft() == before


def test_text_over_a_draft_that_changed_meanwhile_is_kept_back(admin: Client) -> None:
    policy_draft.ensure_first_version()
    assert text(admin, "v: 1\nrules: []\n", based_on="0" * 64).status_code == 409
    assert policy_draft.load_draft()["rules"]


def test_checking_saves_nothing(admin: Client) -> None:
    policy_draft.ensure_first_version()
    answer = text(admin, "v: 1\nrules:\n  - effect: allow\n", what="check")
    assert answer.status_code == 200 and "Warnings" in answer.content.decode() and policy_draft.load_draft()["rules"]


def test_yaml_is_exported_and_imported(admin: Client) -> None:
    policy_draft.ensure_first_version()
    first = policy_draft.load_draft()
    exported = admin.get("/policy/export/?as=yaml")
    assert exported["Content-Disposition"].endswith('.yaml"')
    admin.post("/policy/packs/watch/")
    assert admin.post("/policy/import/", {"document": exported.content.decode()}).status_code == 302
    assert policy_draft.load_draft() == first


@pytest.mark.parametrize("value", [
    "no", "on", "08:00", "1e5", "0123", "~", "", "null", "true", "2027-01-01", "=", "<<", "\u202e", "x\ny", "- a", "#c",
    "a: b", " x ", "é", "\ufeff", "'", '"\\', 1, -2, 1.5, None, True, [], {}, [{}], {"a": [None]},
])  # fmt: skip
def test_a_value_means_the_same_after_the_way_through_yaml(value: Any) -> None:
    written = yaml_io.write_yaml({"a": value})
    back = yaml_io.read_yaml(written).value
    assert back == {"a": value} and type(back["a"]) is type(value) and "\u202e" not in written


# ---------------------------------------------------------------- hits and lint


def test_rules_tell_their_hits_what_they_would_have_said_and_when_they_are_quiet(
    admin: Client, policy: Any, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = {"id": "idle", "effect": "deny", "match": {"tool": ["x"]}}
    rules = [PUSH, {"id": "watching", "effect": "deny", "mode": "monitor"}, idle]
    policy({"default": "allow", "rules": rules})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="Bash", args={"command": "git push"}))
    page = admin.get("/policy/").content.decode()
    assert "1 recent match" in page and 'data-would="1"' in page and "data-quiet" not in page
    now = time.time()
    monkeypatch.setattr("dashboard.policy.view_models.time.time", lambda: now + 40 * 86_400)
    page = admin.get("/policy/").content.decode()
    assert page.count("data-quiet") == 1 and "no match in 30 days" in page
    call = ToolCall.objects.get(call_id="c")
    assert "watching would have decided: deny" in admin.get(f"/calls/{call.public_id}/").content.decode()


def test_unknown_people_and_groups_are_reported(admin: Client) -> None:
    ask = {"approvers": ["a-admin", "group:gone"], "escalate": [{"after": "5m", "to": "nobody-such"}]}
    result = policy_store.check_document({"v": 1, "rules": [{"effect": "ask", "match": {"user": ["zoe"]}, "ask": ask}]})
    strangers = [finding.pointer for finding in result if finding.code == "unknown_person"]
    assert strangers == ["/rules/0/match/user/0", "/rules/0/ask/approvers/1", "/rules/0/ask/escalate/0/to"]


def test_asking_by_default_is_refused_if_no_one_may_answer(a_person: Any) -> None:
    a_person("viewer")
    with pytest.raises(PolicyError) as error:
        policy_store.check_document({"v": 1, "default": "ask", "rules": []})
    assert error.value.findings[0].pointer == "/default"
