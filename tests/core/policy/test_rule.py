"""One rule: doubt counts for deny and ask, and against allow and exceptions."""

from __future__ import annotations

import pytest

from tests.support.rules import ALLOW, NOON, find_effect, policy, rule
from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect

ARGS = [
    ({"path": "/a", "op": "eq", "value": 1}, {"a": 1}, "TTT"),
    ({"path": "/a", "op": "eq", "value": 1}, {"a": 2}, "F"), ({"path": "/a", "op": "eq", "value": 1}, {}, "F"),
    ({"path": "/a", "op": "prefix", "value": "x"}, {"a": ["x"]}, "U"),
    ({"path": "/a/b", "op": "exists"}, {"a": "{}"}, "U"), ({"path": "/a/b", "op": "exists"}, {"a": None}, "F"),
    ({"path": "/a", "op": "absent"}, {}, "T"), ({"path": "/a/1", "op": "eq", "value": 2}, {"a": [1, 2]}, "T"),
    ({"path": "/a/01", "op": "exists"}, {"a": [1, 2]}, "U"),
    ({"path": "/a~1b/~0", "op": "exists"}, {"a/b": {"~": 0}}, "T"),
    ({"path": "", "op": "type", "value": "object"}, {}, "T"), ({"path": "/x", "op": "exists"}, "text", "U"),
    ({"path": "/u/*", "op": "eq", "value": 1}, {"u": [1, 2]}, "any"),
    ({"path": "/u/*", "op": "eq", "value": 1}, {"u": [1, 1]}, "T"),
    ({"path": "/u/*", "op": "eq", "value": 1}, {"u": []}, "F"),
    ({"path": "/u/*/h", "op": "eq", "value": 1}, {"u": {"p": {"h": 1}, "q": {"h": 1}}}, "T"),
    ({"path": "/u/*", "op": "eq", "value": 1, "quant": "all"}, {"u": [1, 2]}, "F"),
    ({"path": "/u/*", "op": "eq", "value": 1, "quant": "any"}, {"u": [1, 2]}, "T"),
    ({"path": "/u/*", "op": "eq", "value": 1}, {"u": [1] * 10_001}, "U"),
    ({"path": "/command/*", "op": "cmd", "value": "ls"}, {"command": ["ls", "rm"]}, "any"),
    ({"path": "/command/*", "op": "cmd", "value": "ls"}, {"command": ["ls", "ls -l"]}, "T"),
]  # fmt: skip


@loop_over(("argument", "value", "answer"), ARGS)
def test_doubt_counts_for_deny_and_ask_and_against_allow_and_exceptions(argument, value, answer):
    match = {"tool": "Bash", "args": [argument]}
    hit = answer[0] in "TUa"
    assert (find_effect(policy(rule("deny", match)), input=value).effect is Effect.DENY) == hit
    assert (find_effect(policy(rule("ask", match)), input=value).effect is Effect.ASK) == hit
    sure = answer[0] == "T"
    assert (find_effect(policy(rule("allow", match), default="ask"), input=value).effect is Effect.ALLOW) == sure
    assert (find_effect(policy(rule("ask", unless=[{"args": [argument]}])), input=value).effect is Effect.ALLOW) == sure


def test_an_unknown_input_is_doubt():
    match = {"tool": "Bash", "args": [{"path": "/a", "op": "eq", "value": 1}]}
    assert find_effect(policy(rule("deny", match)), has_input=False).effect is Effect.DENY
    assert find_effect(policy(rule("allow", match), default="ask"), has_input=False).effect is Effect.ASK


def test_a_doubtful_exception_of_an_allow_ends_it():
    rules = policy(
        rule("allow", unless=[{"args": [{"path": "/url", "op": "host_in", "value": "evil.com"}]}]), default="ask"
    )
    assert find_effect(rules, input={"url": "https://good.com"}).effect is Effect.ALLOW
    assert find_effect(rules, input={"url": "https://evil.com"}).effect is Effect.ASK
    assert find_effect(rules, input={"url": "evil.com"}).effect is Effect.ASK


@pytest.mark.parametrize(
    ("effect", "more", "now", "counts"),
    [("deny", {"enabled": False}, NOON, 0), ("deny", {"expires_at": NOON}, NOON, 0),
    ("deny", {"expires_at": NOON + 1}, NOON, 1),
     ("deny", {"expires_at": NOON}, 0.0, 1), ("allow", {"expires_at": NOON}, 0.0, 0),
     ("allow", {"expires_at": "2027-01-01T00:00:00Z"}, NOON, 1)],
)  # fmt: skip
def test_rules_that_are_off_or_over_do_not_count(effect, more, now, counts):
    assert (find_effect(policy(rule(effect, **more), default="ask"), now=now).code != "default") == bool(counts)


def test_monitoring_rules_only_tell():
    decision = find_effect(policy(rule("deny", mode="monitor"), rule("ask", {"tool": "Read"}, mode="monitor"), ALLOW))
    assert decision.effect is Effect.ALLOW and decision.would == ({"rule": "r0", "effect": "deny"},)
