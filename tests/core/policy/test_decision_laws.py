"""Laws that hold for every policy and every call: order is nothing, milder rules loosen only the default."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.policy_strategies import add_ids, documents, questions, rules
from toolcards.core.policy.decision import Effect, PolicyGrant, PolicyRequest, decide
from toolcards.core.policy.language.document import parse


def with_rule(document, rule):
    return {**document, "rules": [*document["rules"], {"id": "new", **rule}]}


@settings(deadline=None)
@given(documents)
def test_terms_joined_with_themselves_stay_the_same(document):
    assert all(rule.ask.union(rule.ask) == rule.ask for rule in parse(add_ids(document)).rules)


@pytest.mark.slow
@settings(deadline=None)
@given(documents, questions, st.randoms())
def test_the_order_of_rules_changes_nothing(document, question, random):
    document = add_ids(document)
    mixed = {**document, "rules": random.sample(document["rules"], len(document["rules"]))}
    assert decide(parse(document), question) == decide(parse(mixed), question)


@draw(150)
@given(documents, questions, rules)
def test_an_allow_rule_loosens_nothing_but_the_default(document, question, rule):
    document = add_ids(document)
    before = decide(parse(document), question)
    after = decide(parse(with_rule(document, {**rule, "effect": "allow"})), question)
    looser = after.effect.strictness < before.effect.strictness
    assert not looser or before.code in {"default", "unknown_tool"}
    assert (
        before.effect is not Effect.DENY
        or before.code != "rule_denied"
        or replace(after, would=()) == replace(before, would=())
    )


@draw(150)
@given(documents, questions, rules, st.sampled_from(["ask", "deny"]))
def test_a_strict_rule_loosens_nothing_but_a_default_deny_that_becomes_an_ask(document, question, rule, effect):
    document = add_ids(document)
    before = decide(parse(document), question)
    after = decide(parse(with_rule(document, {**rule, "effect": effect})), question)
    looser = after.effect.strictness < before.effect.strictness
    if before.code == "unknown_tool" and question.tool in rule["match"].get("tool", ()):
        return  # a rule that names a tool makes it known
    assert not looser or (effect == "ask" and before.code == "default" and after.effect is Effect.ASK)


@settings(deadline=None)
@given(documents, questions)
def test_every_call_gets_a_whole_answer(document, question):
    policy = parse(add_ids(document))
    decision = decide(policy, question)
    assert decision.effect in Effect and decision.code != "gate_error" and decision.reason and decision.by.kind
    assert (decision.ask is None) == (decision.effect is not Effect.ASK)
    assert decide(policy, question, explain=True).effect is decision.effect
    headless = decide(policy, replace(question, can_wait=False))
    assert headless.effect is not Effect.ASK and decide(policy, question, kill_switch=True).code == "kill_switch"


@settings(deadline=None)
@given(documents, questions)
def test_a_monitoring_or_disabled_rule_decides_nothing(document, question):
    document = add_ids(document)
    live = [rule for rule in document["rules"] if rule.get("mode") != "monitor" and rule.get("enabled", True)]
    assert replace(decide(parse(document), question), would=()) == decide(parse({**document, "rules": live}), question)


@pytest.mark.slow
@settings(deadline=None)
@given(documents, questions, st.booleans())
def test_the_field_overridable_has_no_effect(document, question, overridable):
    with_field, without = ({**document, "overridable": overridable}, {**document})
    without.pop("overridable", None)
    assert decide(parse(with_field), question) == decide(parse(without), question)


@settings(deadline=None)
@given(documents, questions, st.booleans())
def test_grants_never_touch_a_deny(document, question, any_input):
    policy = parse(add_ids(document))
    names = [rule.id for rule in policy.rules] + ["default", "unknown_tool", "changed_tool"]
    grants = [PolicyGrant(name, policy.rule_sha256(name), question.tool, any_input=True) for name in names]
    before, after = decide(policy, question), decide(policy, question, grants=grants)
    if before.effect is not Effect.ASK:
        assert after == before
    else:
        assert after.effect in {Effect.ASK, Effect.ALLOW}


REVIEWERS = {"reviewers": {name: {"kind": "command", "command": "c", "mode": "enforce"} for name in "ab"}}
NAMES = (None, "a", "b")


@draw(150)
@given(documents, questions, st.lists(st.sampled_from(NAMES), min_size=6, max_size=6), st.sampled_from(NAMES))
def test_reviewers_change_no_effect(document, question, names, default_name):
    document = add_ids(document)
    reviewed_rules = [rule | {"review": name} for rule, name in zip(document["rules"], names, strict=False)]
    reviewed_document = {**document, **REVIEWERS, "rules": reviewed_rules, "default_review": default_name}
    before, after = decide(parse(document), question), decide(parse(reviewed_document), question)
    assert (after.effect, after.code, after.rules) == (before.effect, before.code, before.rules)
    if after.ask is not None and after.ask.review:
        assert after.code in {"rule_asks", "default"} and after.complete


def test_a_reviewer_is_asked_only_if_all_rules_that_ask_name_it():
    for names in [names for count in (1, 2, 3) for names in product(NAMES, repeat=count)]:
        for default_name, is_known in product(NAMES, (True, False)):
            rules = [{"id": f"r{number}", "effect": "ask", "review": name} for number, name in enumerate(names)]
            document = {**REVIEWERS, "unknown_tool": "ask", "default_review": default_name, "rules": rules}
            decision = decide(parse(document), PolicyRequest.for_tool("frob", input={}, is_known=is_known))
            expected_name = names[0] if len(set(names)) == 1 and is_known else None
            assert (decision.ask.review or None) == expected_name, (names, default_name, is_known)
