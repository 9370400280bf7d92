"""Conditions of rules, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.rules import find_effect, policy, rule
from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse

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


WHEREVER = {"path": "", "op": "cmd", "value": ["rm"]}
COMMAND_CALLS: list[tuple[str, Any, str]] = [
    ("Bash", {"command": "rm x"}, "deny"),
    ("exec_command", {"cmd": "rm x"}, "deny"),
    ("run_command", {"CommandLine": "rm x"}, "deny"),
    ("local_shell", {"action": {"command": ["rm", "x"]}}, "deny"),
    ("shell_call", {"action": {"commands": ["ls", "rm x"]}}, "deny"),
    ("a_tool_of_ours", {"cmd": "rm x"}, "deny"),
    ("local_shell", {"command": ["ls"], "action": {"command": ["rm", "x"]}}, "deny"),
    ("Bash", {"command": "ls"}, "allow"),
    ("Read", {"file_path": "rm"}, "allow"),
    ("click", {"action": "rm x"}, "allow"),
]


@pytest.mark.parametrize(("tool", "args", "effect"), COMMAND_CALLS)
def test_one_rule_finds_the_command_wherever_a_tool_takes_it(tool: str, args: Any, effect: str) -> None:
    compiled = parse({"v": 1, "default": "allow", "rules": [{"effect": "deny", "match": {"args": [WHEREVER]}}]})
    assert decide(compiled, PolicyRequest.for_tool(tool, input=args)).effect == effect


@pytest.mark.parametrize(
    ("tool", "args", "effect"),
    [
        ("Bash", {"command": "ls"}, "allow"),
        ("exec_command", {"cmd": "ls"}, "allow"),
        ("Bash", {"command": "ls", "cmd": "rm x"}, "ask"),
        ("local_shell", {"command": ["ls"], "action": {"command": ["rm", "x"]}}, "ask"),
        ("Bash", {"command": 5}, "ask"),
        ("Bash", {}, "ask"),
        ("a_tool_of_ours", {"command": "ls"}, "ask"),
        ("python", {"command": "ls"}, "ask"),
    ],
)
def test_to_allow_the_tool_must_certainly_take_its_command_there(tool: str, args: Any, effect: str) -> None:
    rule = {"effect": "allow", "match": {"args": [{"path": "", "op": "effect", "value": "none"}]}}
    compiled = parse({"v": 1, "default": "ask", "rules": [rule]})
    assert decide(compiled, PolicyRequest.for_tool(tool, input=args)).effect == effect


def test_an_exception_for_harmless_commands_covers_only_calls_all_of_whose_commands_are_harmless() -> None:
    read_only = {"args": [{"path": "", "op": "effect", "value": "none"}]}
    rule = {"effect": "ask", "match": {"kind": ["execute"]}, "unless": [read_only]}
    compiled = parse({"v": 1, "default": "allow", "rules": [rule]})
    calls = [{"command": ["ls"]}, {"command": ["ls"], "action": {"command": ["rm", "x"]}}]
    effects = [decide(compiled, PolicyRequest.for_tool("local_shell", input=args)).effect.value for args in calls]
    assert effects == ["allow", "ask"]


@pytest.mark.parametrize(
    ("tool", "args", "allowed"),
    [
        ("Edit", {"file_path": "/srv/shop/a.py"}, True), ("Bash", {"command": "pytest -q"}, True),
        ("Edit", {"file_path": "/srv/shop/.git/config"}, False), ("Edit", {"file_path": "/etc/a"}, False),
        ("Bash", {"command": "git push"}, False), ("delete_file", {"target_file": "/srv/shop/a.py"}, False),
        ("send_reply", {"id": 1}, False), ("Read", {"file_path": "/srv/shop/a.py"}, False), ("run_python", {}, False),
    ],
)  # fmt: skip
def test_one_rule_covers_edits_and_commands_of_a_project(tool, args, allowed):
    conditions = [
        {"path": "", "op": "effect", "value": ["none", "edits", "project"]}, {"path": "", "op": "inside_project"},
    ]  # fmt: skip
    rule = {"effect": "allow", "match": {"kind": ["execute", "edit", "move"], "args": conditions}}
    request = PolicyRequest.for_tool(tool, input=args, root="/srv/shop")
    assert (decide(parse({"default": "ask", "rules": [rule]}), request).effect is Effect.ALLOW) is allowed
