"""What the author may have overlooked."""

from __future__ import annotations

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.lint import lint
from toolcards.core.policy.language.presets import PRESETS


def find_codes(*rules, **more):
    return [(finding.pointer, finding.code) for finding in lint(parse({"rules": list(rules)}), **more)]


ALONE, TWO = [("ana", "group:admin")], [("ana", "group:admin"), ("bea", "group:sre")]


@loop_over(
    ("document", "voters", "owners", "pointers"),
    [
        ({}, ALONE, {"ana"}, ["/default_ask/allow_requester"]),
        ({"default": "deny", "unknown_tool": "ask"}, ALONE, {"ana"}, ["/default_ask/allow_requester"]),
        ({"default": "deny"}, ALONE, {"ana"}, []),
        ({"default_ask": {"allow_requester": True}}, ALONE, {"ana"}, []),
        ({"default_ask": {"allow_requester": False}}, ALONE, {"ana"}, ["/default_ask/allow_requester"]),
        ({}, ALONE, set(), []), ({}, TWO, {"ana"}, []), ({}, TWO, {"zoe"}, []), ({}, [], {"ana"}, []),
        ({"default_ask": {"quorum": 2}}, TWO, {"ana"}, ["/default_ask/allow_requester"]),
        ({"default_ask": {"approvers": ["group:sre"]}}, TWO, {"ana"}, []),
        ({"default_ask": {"approvers": ["group:sre"]}}, TWO, {"bea"}, ["/default_ask/allow_requester"]),
        ({"default": "deny", "rules": [{"effect": "ask", "match": {"tool": "x"}}]}, ALONE, {"ana"},
         ["/rules/0/ask/allow_requester"]),
        ({"default": "deny", "rules": [{"effect": "ask", "match": {"tool": "x"}, "ask": {"allow_requester": True}}]},
         ALONE, {"ana"}, []),
        ({"default": "deny", "rules": [{"effect": "ask", "match": {"tool": "x"}, "mode": "monitor"}]},
         ALONE, {"ana"}, []),
    ],
)  # fmt: skip
def test_asks_that_only_the_requester_could_answer_are_warned_of(document, voters, owners, pointers):
    result = lint(parse(document), voters=voters, owners=owners)
    assert [(one.pointer, one.code, one.grave) for one in result] == [(at, "requester_only", False) for at in pointers]


@pytest.mark.parametrize(
    ("ask", "findings"),
    [
        ({"approvers": ["group:dev"]}, [("/approvers", "no_approvers"), ("/approvers/0", "unknown_person")]),
        ({"quorum": 3}, [("/quorum", "no_approvers")]), ({"quorum": 2}, []),
        ({"decide_ttl": "5m", "escalate": [{"after": "10m", "to": "zoe"}]},
         [("/escalate/0/after", "too_late"), ("/escalate/0/to", "unknown_person")]),
    ],
)  # fmt: skip
def test_terms_of_the_default_are_checked_like_a_rules(ask, findings):
    result = lint(parse({"default_ask": ask}), groups={"group:sre": 2}, people=["ana", "group:sre"])
    assert [(one.pointer, one.code) for one in result] == [("/default_ask" + at, code) for at, code in findings]
    assert [one.grave for one in result] == [one.code == "no_approvers" for one in result]


def test_unknown_tools_and_arguments():
    rule = {"effect": "ask", "match": {"tool": ["bash", "Read*"], "args": [{"path": "/cmd", "op": "exists"}]}}
    (finding,) = lint(parse({"rules": [rule]}), known_tools=["Bash", "ReadFile"])
    assert finding.pointer == "/rules/0/match/tool/0" and "Did you mean Bash" in finding.message
    schemas = {"bash": {"properties": {"command": {}}}}
    assert find_codes(rule, schemas=schemas) == [("/rules/0/match/args/0/path", "unknown_argument")]


@pytest.mark.parametrize(
    ("ask", "groups", "findings"),
    [
        ({"approvers": ["group:sre"]}, {"group:sre": 2}, []),
        ({"approvers": ["group:sre"]}, {"group:dev": 2}, ["no_approvers"]), ({}, {}, ["no_approvers"]),
        ({"approvers": ["group:sre"], "quorum": 3}, {"group:sre": 2}, ["no_approvers"]), ({}, {"group:a": 1}, []),
        ({"quorum": 2, "allow_requester": False}, {"group:a": 2}, ["quorum_tight"]),
        ({"quorum": 2}, {"group:a": 2}, []),
    ],
)  # fmt: skip
def test_asks_that_no_one_can_answer_are_grave(ask, groups, findings):
    result = lint(parse({"rules": [{"effect": "ask", "match": {"tool": "x"}, "ask": ask}]}), groups=groups)
    assert [finding.code for finding in result] == findings
    assert all(finding.grave == (finding.code == "no_approvers") for finding in result)


def test_rules_that_never_count_and_rules_said_twice():
    allow, deny, ask = (
        {"effect": effect, "match": {"tool": tool}}
        for effect, tool in (("allow", "git_push"), ("deny", "git_*"), ("ask", "git_push"))
    )
    assert find_codes(allow, deny) == [("/rules/0", "shadowed")]
    assert find_codes(allow, ask) == [("/rules/0", "shadowed")]
    assert find_codes(allow, {**deny, "unless": [{"env": "dev"}]}) == []
    assert find_codes(allow, {**deny, "match": {"tool": "git_*", "env": "prod"}}) == []
    assert find_codes(allow, {**deny, "unless": [{"tool": "git_pull"}]}) == [("/rules/0", "shadowed")]
    assert find_codes(allow, allow) == [("/rules/1", "twin")]
    duplicate = lint(parse({"rules": [{"id": "pushes", **allow}, allow]}))[-1]
    assert duplicate.message == "This is a duplicate of pushes."


@pytest.mark.parametrize("pack", PRESETS.values(), ids=PRESETS)
def test_packs_have_nothing_to_find(pack):
    assert lint(parse(pack.document), groups={"approvers": 1}) == []
