"""Decisions: the order, doubt, grants, and the laws that hold for every policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.rules import ALLOW, ASK, DENY, find_effect, grant, policy, rule
from tests.support.tables import loop_over
from toolcards.core.policy.decision import AskTerms, Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import compile_pattern, parse
from toolcards.core.policy.language.presets import PRESETS


# ---------------------------------------------------------------- the order
@pytest.mark.parametrize(
    ("rules", "default", "effect", "code"),
    [
        ([], "allow", "allow", "default"), ([], "ask", "ask", "default"), ([], "deny", "deny", "default"),
        ([ALLOW], "deny", "allow", "rule_allowed"), ([ASK], "deny", "ask", "rule_asks"),
        ([ASK, ALLOW], "allow", "ask", "rule_asks"),
        ([ALLOW, ASK, DENY], "allow", "deny", "rule_denied"), ([DENY, ALLOW], "ask", "deny", "rule_denied"),
    ],
)  # fmt: skip
def test_strict_beats_mild(rules, default, effect, code):
    decision = find_effect(policy(*rules, default=default))
    assert (decision.effect, decision.code, decision.version) == (effect, code, 7)
    assert decision.reason and (decision.ask is not None) == (effect == "ask")


def test_the_kill_switch_beats_all():
    assert find_effect(policy(ALLOW), kill_switch=True).code == "kill_switch"
    assert find_effect(None, kill_switch=True).code == "kill_switch"


def test_no_policy_and_broken_policies_deny():
    assert find_effect(None).code == "gate_error"
    assert find_effect("nonsense").code == "gate_error"
    assert find_effect(policy(ASK), eligible=lambda terms: 1 // 0).code == "gate_error"
    broken = decide(policy(rule("allow", {"when": {}})), PolicyRequest("Bash", now=float("inf")))
    assert (broken.effect, broken.code, broken.by.kind) == ("deny", "gate_error", "gate_error")


def test_all_deciding_rules_are_named_and_the_strictest_gives_the_reason():
    decision = find_effect(
        policy(
            rule("deny", severity="low", public_reason="low"),
            rule("deny", severity="critical", public_reason="grave", suggest="Do x."),
            ALLOW,
        )
    )
    assert (
        decision.rule == "r1"
        and decision.rules == ("r1", "r0")
        and decision.reason == "grave"
        and decision.suggest == "Do x."
    )
    assert (decision.by.kind, decision.by.name) == ("rule", "r1")


@pytest.mark.parametrize(
    ("question", "eligible", "effect"),
    [
        ({}, None, "ask"),
        ({}, 1, "deny"),
        ({}, 2, "ask"),
        ({"can_wait": False}, None, "deny"),
        ({}, lambda terms: terms.quorum, "ask"),
    ],
)
def test_an_ask_that_no_one_can_answer_is_a_deny(question, eligible, effect):
    decision = find_effect(policy(rule("ask", ask={"quorum": 2})), eligible=eligible, **question)
    assert decision.effect == effect
    if effect == "deny":
        assert decision.code == decision.by.kind == "no_approver" and decision.rule == "r0" and decision.ask is None


def test_who_a_question_is_escalated_to_counts_for_the_list_of_that_rule_only():
    waits = {"approvers": ["ann"], "escalate": [{"after": "5m", "to": "bob"}]}
    later = {"approvers": ["ann"], "escalate": [{"after": "9m", "to": "bob"}]}
    alone = find_effect(policy(rule("ask", ask=waits))).ask
    assert (
        not alone.may_answer({"bob"})
        and alone.find_due_escalations(299) == ()
        and alone.find_due_escalations(300) == ((300.0, "bob"),)
    )
    match = replace(alone, escalated=alone.find_due_escalations(300))
    assert match.may_answer({"bob"}) and match.may_answer({"ann"}) and match.find_due_escalations(300) == ()
    for other in ({"approvers": ["ann"]}, later, {"approvers": ["cid"]}):
        for pair in ((waits, other), (other, waits)):
            both = find_effect(policy(*(rule("ask", ask=terms) for terms in pair))).ask
            assert not replace(both, escalated=both.escalate).may_answer({"bob"}), pair
    both = find_effect(policy(rule("ask", ask=waits), rule("ask", ask={"approvers": ["cid"]}))).ask
    assert replace(both, escalated=both.escalate).may_answer({"bob", "cid"})
    third = find_effect(policy(*(rule("ask", ask=terms) for terms in (waits, {"approvers": ["ann"]}, waits)))).ask
    assert not replace(third, escalated=third.escalate).may_answer({"bob"})


def test_the_terms_are_the_strictest_union():
    one = {"approvers": ["group:a"], "quorum": 2, "deny_quorum": 2, "decide_ttl": "1h", "use_ttl": "1m",
    "editable": ["/a", "/b"],
           "grants": ["once", "run"], "escalate": [{"after": "5m", "to": "group:lead"}]}  # fmt: skip
    two = {
        "approvers": ["group:b", "ana"],
        "allow_requester": False,
        "decide_ttl": "5m",
        "reason": "on_deny",
        "reauth": True,
        "editable": ["/b/c", "/d"],
    }
    terms = find_effect(policy(rule("ask", ask=one), rule("ask", ask=two), rule("ask"))).ask
    assert terms == AskTerms(
        decide_ttl=300.0, use_ttl=60.0, approvers=(("ana", "group:b"), ("group:a",)), quorum=2, deny_quorum=1,
        allow_requester=False,
        reason="on_deny", reauth=True, editable=("/b/c",), grants=("once", "run"), escalate=((300.0, "group:lead"),),
        stands_in=((300.0, "group:lead", ("group:a",)),),
    )  # fmt: skip
    assert terms.may_answer({"ana", "group:a"}) and not terms.may_answer({"ana"}) and AskTerms().may_answer(set())


def test_an_ask_by_default_has_the_default_terms_and_with_a_rule_the_stricter_ones():
    ask = AskTerms(allow_requester=True, quorum=2)
    for head in ({"default": "ask"}, {"default": "allow", "unknown_tool": "ask"}):
        decision = decide(
            parse(head | {"default_ask": {"allow_requester": True, "quorum": 2}}),
            PolicyRequest.for_tool("Bash", is_known=False),
        )
        assert (decision.effect, decision.ask) == (Effect.ASK, ask)
    document = {
        "unknown_tool": "ask",
        "default_ask": {"allow_requester": True, "quorum": 2},
        "rules": [{"effect": "ask"}],
    }
    assert decide(parse(document), PolicyRequest.for_tool("Bash", is_known=False)).ask == AskTerms(quorum=2)


def test_a_grant_for_the_default_ends_when_its_terms_change():
    plain, other = parse({"v": 1}), parse({"v": 1, "default_ask": {"quorum": 2}})
    for name in ("default", "unknown_tool", "changed_tool"):
        assert plain.rule_sha256(name) == parse({"default": "deny"}).rule_sha256(name) != other.rule_sha256(name)


def test_rules_for_critical_things_offer_no_lasting_grant():
    assert find_effect(policy(rule("ask", severity="critical"))).ask.grants == ("once",)


def test_a_pattern_over_commands_covers_every_segment():
    rules = policy(rule("ask"))
    result = grant(rules, digest="", pattern=compile_pattern([{"path": "/command", "op": "cmd", "value": "git log"}]))
    assert find_effect(rules, input={"command": "git log main"}, grants=[result]).effect is Effect.ALLOW
    for command in ("git log; rm x", "git log $X", "git log --output=x"):
        assert find_effect(rules, input={"command": command}, grants=[result]).effect is Effect.ASK


# ---------------------------------------------------------------- budget, explanations
def prefix_ids(prefix, rules):
    return replace(rules, rules=tuple(replace(rule, id=prefix + rule.id) for rule in rules.rules))


PACK_TABLE = [
    ("watch", "Bash", {"command": "rm -rf $X"}, "allow"), ("ask-on-writes", "Read", {}, "allow"),
    ("ask-on-writes", "Edit", {}, "ask"),
    ("ask-on-writes", "Bash", {"command": "git status && ls | head"}, "allow"),
    ("ask-on-writes", "Bash", {"command": "git push"}, "ask"),
    ("ask-on-writes", "Bash", {"command": "find . -delete"}, "ask"),
    ("ask-on-writes", "Bash", {"command": "cat $X"}, "ask"), ("ask-on-writes", "Bash", {}, "ask"),
    ("ask-on-writes", "shell", {"command": ["ls", "-l"]}, "allow"),
    ("ask-on-writes", "Bash", {"command": ["ls", "-l"]}, "ask"),
    ("ask-on-writes", "mcp__db__delete_row", {}, "ask"), ("locked-down", "Read", {}, "allow"),
    ("locked-down", "Bash", {"command": "ls"}, "ask"), ("locked-down", "WebFetch", {}, "ask"),
    ("locked-down", "frob", {}, "ask"),
]  # fmt: skip


@loop_over(("name", "tool", "value", "effect"), PACK_TABLE)
def test_packs(name, tool, value, effect):
    decision = find_effect(parse(PRESETS[name].document), tool=tool, input=value)
    assert decision.effect == effect and decision.reason


def test_where_the_default_allows_an_allow_rule_makes_no_question_of_work_that_it_surely_does_not_cover() -> None:
    shares = {"args": [{"path": "", "op": "effect", "value": ["none", "shares"]}]}
    policy = parse({"default": "allow", "rules": [{"id": "r", "effect": "allow", "match": shares}]})
    commands = {
        "git commit -qam 'Name the hold'": "allow",
        "git push -u origin fix/hold && git commit -qam x": "allow",
        "git commit -qam $(cat x)": "ask",
        "some-program": "ask",
        "git push --force": "ask",
    }
    for command, effect in commands.items():
        request = PolicyRequest.for_tool("Bash", input={"command": command}, root="/home/ann/shop")
        assert decide(policy, request).effect == effect, command
