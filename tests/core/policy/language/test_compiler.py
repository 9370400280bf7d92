"""What the compiler fills in: names of rules, and terms that a rule leaves open."""

from __future__ import annotations

import pytest

from toolcards.core.policy.decision import AskTerms
from toolcards.core.policy.language.document import PolicyError, parse


def test_a_rule_without_a_name_gets_one_from_its_content():
    one, two = {"effect": "deny", "match": {"tool": "a"}}, {"effect": "deny", "match": {"tool": "b"}}
    names = [[rule.id for rule in parse({"rules": rules}).rules] for rules in ([one, two], [two, one], [one, one])]
    assert names[0] == names[1][::-1] and len(set(names[2])) == 2 and names[2][0] == names[0][0]


def test_a_single_value_is_a_list_of_one():
    rule = {
        "effect": "ask",
        "match": {"tool": "x", "kind": "read", "args": {"path": "/a", "op": "exists"}},
        "unless": {"env": "dev"},
    }
    assert parse({"rules": [rule]}).rules[0].tools == ("x",)


def test_the_default_has_terms_of_its_own_that_rules_take_nothing_from():
    decision = {"allow_requester": True, "quorum": 2, "approvers": "group:sre", "decide_ttl": "1m", "grants": ["once"]}
    policy = parse({"v": 1, "default_ask": decision, "rules": [{"effect": "ask"}]})
    assert policy.ask == AskTerms(
        allow_requester=True, quorum=2, approvers=(("group:sre",),), decide_ttl=60.0, grants=("once",)
    )
    assert policy.rules[0].ask == AskTerms() and parse({"v": 1}).ask == AskTerms()


def test_terms_that_a_rule_leaves_open_come_from_the_server():
    terms = AskTerms(decide_ttl=60, use_ttl=10)
    policy = parse({"rules": [{"effect": "ask", "ask": {"use_ttl": 20}}]}, ask=terms)
    assert (policy.rules[0].ask.decide_ttl, policy.rules[0].ask.use_ttl, policy.ask) == (60, 20, terms)


def test_a_query_is_read_from_one_argument():
    rule = {"effect": "deny", "match": {"args": [{"path": "/sql/*", "op": "reads_sql"}]}}
    with pytest.raises(PolicyError, match="name it without"):
        parse({"rules": [rule]})
