"""Conditions of rules, one by one."""

from __future__ import annotations

from tests.support.rules import find_effect, policy, rule
from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect

MATCHES = [
    ({"tool": "git_*"}, {"tool": "git_push"}, 1), ({"tool": "git_*"}, {"tool": "Git_push"}, 1),
    ({"tool": ["x", "Bash"]}, {}, 1),
    ({"tool": "*"}, {}, 1), ({"tool": "B?sh"}, {}, 0), ({"tool": "ash"}, {}, 0), ({"kind": "execute"}, {}, 1),
    ({"kind": "read"}, {}, 0),
    ({"kind": ["read", "other"]}, {"tool": "frob"}, 1), ({"source": "git*"}, {"source": "github"}, 1),
    ({"source": "github"}, {}, 0),
    ({"source": "github"}, {"tool": "mcp__github__x"}, 1), ({"env": "prod"}, {"env": "prod"}, 1),
    ({"env": "prod"}, {}, 0),
    ({"user": "group:dev"}, {"user": ("ana", "group:dev")}, 1), ({"user": "group:dev"}, {}, 0),
    ({"tool": "Bash", "env": "prod"}, {}, 0),
    ({"agent": "rel-*"}, {"agent_path": ("rel-1", "sub")}, 1),
    ({"agent": "rel-*", "agent_scope": "leaf"}, {"agent_path": ("rel-1", "sub")}, 0),
    ({"agent": "sub", "agent_scope": "leaf"}, {"agent_path": ("rel-1", "sub")}, 1), ({"agent": "x"}, {}, 0),
    ({"when": {"days": ["mon"], "from": "11:00", "to": "13:00"}}, {}, 1), ({"when": {"days": ["tue"]}}, {}, 0),
    ({"when": {"from": "12:01"}}, {}, 0),
    ({"when": {"to": "12:00"}}, {}, 0), ({"when": {"tz": "Asia/Tokyo", "from": "21:00", "to": "22:00"}}, {}, 1),
    ({"when": {}}, {"now": 0.0}, 1),
    ({"when": {"from": "22:00", "to": "13:00", "days": ["sun"]}}, {}, 1),
    ({"when": {"from": "22:00", "to": "13:00", "days": ["mon"]}}, {}, 0),
    ({"rate": {"over": 5, "per": "10m"}}, {"counts": {("run", 600): 5}}, 1),
    ({"rate": {"over": 5, "per": "10m"}}, {"counts": {("run", 600): 4}}, 0),
    ({"rate": {"over": 5, "per": "10m"}}, {}, 1), ({}, {}, 1),
]  # fmt: skip


@loop_over(("match", "question", "hit"), MATCHES)
def test_conditions(match, question, hit):
    assert (find_effect(policy({"effect": "deny", "match": match}), **question).effect is Effect.DENY) == bool(hit)


def test_an_allow_looks_at_the_agent_itself():
    rules = policy(rule("allow", {"agent": "boss"}), default="ask")
    assert find_effect(rules, agent_path=("boss",)).effect is Effect.ALLOW
    assert find_effect(rules, agent_path=("boss", "child")).effect is Effect.ASK
