"""The document: what is taken, what is refused and where, and how rules read aloud."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.reviewers import MODEL, NAME, build_policy
from tests.support.tables import loop_over
from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.decision import AskTerms, Effect
from toolcards.core.policy.language.document import PolicyError, compile_pattern, parse
from toolcards.core.policy.language.lint import lint
from toolcards.core.policy.language.presets import PRESETS
from toolcards.core.policy.reviewer import DEFAULT_PROMPT

# every field that a rule can have
EXAMPLE = json.loads("""
{"v":1,"default":"ask","unknown_tool":"ask","changed_tool":"ask",
 "rules":[{"id":"rul_push","effect":"ask","mode":"enforce","enabled":true,"severity":"high","expires_at":null,
  "match":{"tool":["bash","git_*"],"kind":["execute"],"source":["builtin"],"agent":["release-*"],"agent_scope":"any_in_path",
           "user":["group:dev"],"env":["prod"],"args":[{"path":"/command","op":"cmd","value":"git push"}],
           "when":{"tz":"Europe/Berlin","days":["mon","tue","wed","thu","fri"],"from":"08:00","to":"18:00"},
           "rate":{"over":5,"per":"10m","scope":"run"}},
  "unless":[{"args":[{"path":"/command","op":"eq","value":"git push --dry-run"}]}],
  "ask":{"approvers":["group:sre"],"quorum":1,"deny_quorum":1,"allow_requester":false,"decide_ttl":"15m","use_ttl":"5m",
         "reason":"on_deny","reauth":false,"editable":["/message"],"grants":["once","run","until"],"escalate":[{"after":"5m","to":"group:lead"}]},
  "deny":null,"public_reason":"Pushing needs a person.","suggest":"Open a draft PR with `gh pr create --draft`."}]}
""")


def changed(pointer, value):
    document = copy.deepcopy(EXAMPLE)
    place, *steps = [document, *pointer.split("/")[1:]]
    for step in steps[:-1]:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if isinstance(place, list):
        place[int(steps[-1]) :] = [value]
    else:
        place[steps[-1]] = value
    return document


def test_the_example_of_the_design_is_taken():
    policy = parse(EXAMPLE, version=42)
    assert (policy.version, policy.sha256, policy.default) == (42, digest(EXAMPLE), Effect.ASK)
    (rule,) = policy.rules
    assert (rule.id, rule.severity, rule.reason, rule.focus) == (
        "rul_push",
        "high",
        "Pushing needs a person.",
        ("command",),
    )
    assert rule.ask == AskTerms(
        decide_ttl=900.0, use_ttl=300.0, approvers=(("group:sre",),), allow_requester=False, reason="on_deny",
        editable=("/message",),
        escalate=((300.0, "group:lead"),), stands_in=((300.0, "group:lead", ("group:sre",)),), severity="high",
    )  # fmt: skip


@pytest.mark.parametrize("pack", PRESETS.values(), ids=PRESETS)
def test_packs_are_taken(pack):
    assert pack.title and pack.summary and parse(pack.document)
    assert all(rule.public_reason for rule in parse(pack.document).rules)


@loop_over(
    ("pointer", "value", "at", "code"),
    [
        ("/extra", 1, "/extra", "unknown_field"), ("/v", 2, "/v", "unknown_value"),
        ("/default", "maybe", "/default", "unknown_value"),
        ("/rules", {}, "/rules", "type"), ("/rules/0/effect", "block", "/rules/0/effect", "unknown_value"),
        ("/rules/0/efect", "ask", "/rules/0/efect", "unknown_field"),
        ("/rules/0/enabled", "yes", "/rules/0/enabled", "type"),
        ("/rules/0/enabled", 1, "/rules/0/enabled", "type"),
        ("/rules/0/mode", "shadow", "/rules/0/mode", "unknown_value"),
        ("/rules/0/match/kind", ["exec"], "/rules/0/match/kind/0", "unknown_value"),
        ("/rules/0/match/tool", [], "/rules/0/match/tool", "type"),
        ("/rules/0/match/tool", [1], "/rules/0/match/tool/0", "type"),
        ("/rules/0/match/toool", ["x"], "/rules/0/match/toool", "unknown_field"),
        ("/rules/0/match/args/0/op", "regex", "/rules/0/match/args/0/op", "unknown_operator"),
        ("/rules/0/match/args/0/path", "command", "/rules/0/match/args/0/path", "value"),
        ("/rules/0/match/args/0/path", "/a~2", "/rules/0/match/args/0/path", "value"),
        ("/rules/0/match/args/0/quant", "some", "/rules/0/match/args/0/quant", "unknown_value"),
        ("/rules/0/match/args/0", {"path": "/a", "op": "re2", "value": "(?!x)"}, "/rules/0/match/args/0/value",
        "pattern"),
        ("/rules/0/unless/0/args/0", {"path": "/a", "op": "cidr", "value": "x"}, "/rules/0/unless/0/args/0/value",
        "value"),
        ("/rules/0/match/args/0/value", float("nan"), "/rules/0/match/args/0/value", "not_json"),
        ("/rules/0/match/when/tz", "Mars/Base", "/rules/0/match/when/tz", "value"),
        ("/rules/0/match/when/from", "8:00", "/rules/0/match/when/from", "value"),
        ("/rules/0/match/when/days", ["monday"], "/rules/0/match/when/days/0", "unknown_value"),
        ("/rules/0/match/rate/per", "10 minutes", "/rules/0/match/rate/per", "value"),
        ("/rules/0/match/rate/over", -1, "/rules/0/match/rate/over", "type"),
        ("/rules/0/ask/quorum", 0, "/rules/0/ask/quorum", "type"),
        ("/rules/0/ask/quorum", True, "/rules/0/ask/quorum", "type"),
        ("/rules/0/expires_at", "tomorrow", "/rules/0/expires_at", "value"),
        *(("/rules/0/expires_at", value, "/rules/0/expires_at", "type") for value in (0, -1, 1e308, 1e15, True, [])),
        *(("/rules/0/expires_at", value, "/rules/0/expires_at", "value") for value in ("nan", "inf", "1", "-1")),
        ("/rules/0/expires_at", "0001-01-01T00:00:00+14:00", "/rules/0/expires_at", "type"),
        *(("/rules/0/ask/use_ttl", value, "/rules/0/ask/use_ttl", "type") for value in (0, -1, 1.5, True, "0s", [])),
        *(("/rules/0/ask/use_ttl", value, "/rules/0/ask/use_ttl", "value") for value in ("nan", "-5m", "1e3s", "")),
        ("/rules/0/expires_at", "2027-01-01T00:00:00", "/rules/0/expires_at", "value"),
        ("/rules/0/id", "a b", "/rules/0/id", "type"), ("/rules/0/id", "default", "/rules/0/id", "reserved_id"),
        ("/rules/0/deny", {}, "/rules/0/deny", "type"),
        ("/rules/0/match/args", [{"path": "/a", "op": "eq", "value": 2**60}], "/rules/0/match/args/0/value",
        "not_json"),
    ],
)  # fmt: skip
def test_what_is_not_right_is_refused_with_its_place(pointer, value, at, code):
    with pytest.raises(PolicyError) as error:
        parse(changed(pointer, value))
    assert [(finding.pointer, finding.code) for finding in error.value.findings] == [(at, code)]
    assert error.value.findings[0].message


@pytest.mark.parametrize("document", [None, [], "x", 1, object(), {"rules": None}, {1: 2}])
def test_what_is_no_document_is_refused(document):
    with pytest.raises(PolicyError):
        parse(document)


def test_all_findings_come_at_once():
    bad = {"effect": "ask", "match": {"args": [{"path": "/a", "op": "re2", "value": "("}]}}
    with pytest.raises(PolicyError) as error:
        parse({"rules": [{**bad, "id": "x"}, {**bad, "id": "x"}]})
    assert [finding.pointer for finding in error.value.findings] == [
        "/rules/0/match/args/0/value",
        "/rules/1/id",
        "/rules/1/match/args/0/value",
    ]


@pytest.mark.parametrize(
    ("terms", "pointer"),
    [({"quorums": 2}, "/quorums"), ({"quorum": 0}, "/quorum"), ({"allow_requester": 1}, "/allow_requester"), ([], "")],
)
def test_terms_of_the_default_that_are_wrong_are_refused_with_their_place(terms, pointer):
    with pytest.raises(PolicyError) as error:
        parse({"default_ask": terms})
    assert [finding.pointer for finding in error.value.findings] == ["/default_ask" + pointer]


def test_patterns_of_grants_are_checked_too():
    for args in ([], None, [{"path": "/a", "op": "re2", "value": "("}], [{"path": "/a", "op": "nope"}], "x"):
        with pytest.raises(PolicyError):
            compile_pattern(args)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["rules", "match", "effect", "args", "id", "tool", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
PLACES = [
    "/rules",
    "/default",
    "/rules/0/match",
    "/rules/0/ask",
    "/rules/0/match/args/0",
    "/rules/0/match/args/0/value",
    "/rules/0/unless",
    "/rules/0/match/when",
]


@settings(deadline=None)
@given(st.sampled_from(PLACES), json_values)
def test_a_document_is_taken_or_refused_with_findings(pointer, value):
    try:
        first, second = parse(changed(pointer, value)), parse(changed(pointer, value))
    except PolicyError as refused:
        assert refused.findings
        return
    assert first.sha256 == second.sha256
    assert [(rule.id, rule.sha256, rule.sentence) for rule in first.rules] == [
        (rule.id, rule.sha256, rule.sentence) for rule in second.rules
    ]


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"rules": [{"effect": "ask", "review": "other"}]}, "/rules/0/review", "unknown_reviewer"),
    ({"default_review": "other"}, "/default_review", "unknown_reviewer"),
    ({"reviewers": {"g": {"kind": "command"}}}, "/reviewers/g/command", "missing"),
    ({"reviewers": {"g": {"kind": "webhook"}}}, "/reviewers/g/url", "missing"),
    ({"reviewers": {"g": {"kind": "webhook", "url": "https://a.example", "prompt": "x"}}}, "/reviewers/g/prompt",
     "unknown_field"),
    ({"reviewers": {"g": {"kind": "model", "api": "openai", "url": "https://a.example"}}}, "/reviewers/g/model",
     "missing"),
    ({"reviewers": {"g": MODEL | {"url": "file:///etc/passwd"}}}, "/reviewers/g/url", "type"),
    ({"reviewers": {"g": MODEL | {"timeout": 121}}}, "/reviewers/g/timeout", "type"),
    ({"reviewers": {"g": MODEL | {"key": "sk-1"}}}, "/reviewers/g/key", "unknown_field"),
    ({"reviewers": {"g": {"kind": "oracle"}}}, "/reviewers/g/kind", "unknown_value"),
]  # fmt: skip


@loop_over(("document", "pointer", "code"), FAULTS)
def test_a_fault_is_refused_with_its_place(document: dict[str, Any], pointer: str, code: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse({"v": 1, **document})
    assert [(finding.pointer, finding.code) for finding in error.value.findings] == [(pointer, code)]


def test_a_rule_asks_its_reviewer_and_a_shadow_one_decides_nothing() -> None:
    terms = parse(build_policy()).rules[0].ask
    assert (terms.review, terms.shadow_review) == (NAME, "")
    terms = parse(build_policy({"mode": "shadow"})).rules[0].ask
    assert (terms.review, terms.shadow_review) == ("", NAME)
    policy = parse(build_policy({"prompt": None}) | {"default_review": NAME})
    assert policy.ask.review == NAME and policy.reviewers[NAME].prompt == DEFAULT_PROMPT


@loop_over(
    ("rule", "code"),
    [
        ({"effect": "deny"}, ["unused"]), ({"severity": "high"}, ["review_only_denies"]),
        ({"ask": {"quorum": 2}}, ["review_only_denies"]), ({"ask": {"reauth": True}}, ["review_only_denies"]), ({}, []),
    ],
)  # fmt: skip
def test_a_review_that_cannot_approve_is_a_warning(rule: dict[str, Any], code: list[str]) -> None:
    assert [finding.code for finding in lint(parse(build_policy(**rule))) if "review" in finding.pointer] == code
