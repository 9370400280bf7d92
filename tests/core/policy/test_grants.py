"""Grants: each counts only for what it names, and none lifts a denial."""

from __future__ import annotations

from tests.support.rules import ASK, DENY, NOON, find_effect, grant, policy, rule
from tests.support.tables import loop_over
from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.decision import Effect
from toolcards.core.policy.language.document import compile_pattern


@loop_over(
    ("more", "counts"),
    [
        ({}, 1), ({"rule": "r1"}, 0), ({"rule": "default"}, 0), ({"rule_sha256": "x"}, 0), ({"tool": "Read"}, 0),
        ({"digest": digest({})}, 0), ({"run": "1"}, 1),
        ({"run": "2"}, 0), ({"server": "s"}, 0), ({"schema": "s"}, 0), ({"agent": "boss/a"}, 1),
        ({"agent": "a"}, 0), ({"agent": "boss"}, 0), ({"agent": "b"}, 0),
        ({"expires_at": NOON + 1}, 1), ({"expires_at": NOON}, 0),
        ({"digest": ""}, 0), ({"digest": "", "any_input": True}, 1),
        ({"digest": "", "pattern": compile_pattern([{"path": "/a", "op": "eq", "value": 1}])}, 1),
        ({"digest": "", "pattern": compile_pattern([{"path": "/b", "op": "prefix", "value": "x"}])}, 0),
    ],
)  # fmt: skip
def test_a_grant_counts_only_for_what_it_names(more, counts):
    rules = policy(ASK)
    decision = find_effect(rules, input={"a": 1}, run="1", agent_path=("boss", "a"), grants=[grant(rules, **more)])
    assert decision.effect == ("allow" if counts else "ask")
    if counts:
        assert (decision.code, decision.by.kind, decision.by.name, decision.grants, decision.rule) == (
            "granted",
            "grant",
            "gra_1",
            ("gra_1",),
            "r0",
        )


def test_every_ask_needs_its_own_grant_and_a_deny_has_none():
    rules = policy(ASK, rule("ask", ask={"quorum": 3}))
    decision = find_effect(rules, input={"a": 1}, grants=[grant(rules)])
    assert (decision.effect, decision.rules, decision.ask.quorum) == ("ask", ("r1",), 3)
    assert find_effect(rules, input={"a": 1}, grants=[grant(rules), grant(rules, "r1")]).effect is Effect.ALLOW
    denying = policy(DENY)
    assert (
        find_effect(denying, input={"a": 1}, grants=[grant(denying), grant(denying, "default")]).effect is Effect.DENY
    )


def test_a_grant_from_the_default_answers_only_the_default():
    rules = policy(default="ask")
    assert find_effect(rules, input={"a": 1}, grants=[grant(rules, "default")]).code == "granted"
    denying = policy(default="deny")
    assert find_effect(denying, input={"a": 1}, grants=[grant(denying, "default")]).effect is Effect.DENY


def test_a_changed_rule_voids_its_grants():
    old, new = policy(ASK), policy(rule("ask", {"tool": "Ba*"}))
    assert find_effect(new, input={"a": 1}, grants=[grant(old)]).effect is Effect.ASK


EDIT = {"title": "a.py", "content": [{"type": "diff", "path": "a.py", "oldText": None, "newText": "x"}]}


@loop_over("request", [
    {"title": "npm test", "kind": "execute", "rawInput": None}, EDIT | {"kind": "execute", "rawInput": None},
    EDIT | {"kind": "fetch"}, EDIT, {"title": "a.py", "kind": "edit", "content": [{"type": "diff", "path": "a.py"}]},
])  # fmt: skip
def test_what_does_not_say_all_that_would_happen_is_no_call_that_can_be_granted(request):
    edit = EDIT | {"kind": "edit"}  # of the Agent Client Protocol
    for rules, name in ((policy(ASK), "r0"), (policy(default="ask"), "default")):
        for each_grant in (grant(rules, name, digest=digest(request)), grant(rules, name, any_input=True)):
            decision = find_effect(rules, input=request, grants=[each_grant])
            assert (decision.effect, decision.ask.grants) == ("ask", ("once",))
        assert find_effect(rules, input=edit, grants=[grant(rules, name, digest=digest(edit))]).effect == "allow"
        assert set(find_effect(rules, input=edit).ask.grants) > {"once"}
