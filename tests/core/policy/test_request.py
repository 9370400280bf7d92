"""Requests: the kind of a tool is ours, and tools may be new or changed."""

from __future__ import annotations

from tests.support.rules import find_effect, policy, rule
from toolcards.core.policy.decision import Effect, PolicyRequest


def test_tools_that_are_new_or_changed():
    strict = policy(
        rule("allow", {"tool": "*"}),
        rule("ask", {"tool": "Named", "env": "prod"}),
        unknown_tool="deny",
        changed_tool="ask",
    )
    assert find_effect(strict).effect is Effect.ALLOW
    assert find_effect(strict, tool="new", is_known=False).code == "unknown_tool"
    assert find_effect(strict, tool="Named", is_known=False).effect is Effect.ALLOW
    assert (find_effect(strict, changed=True).effect, find_effect(strict, changed=True).code) == ("ask", "changed_tool")
    assert find_effect(policy(default="ask"), is_known=False, changed=True).code == "default"
    assert find_effect(policy(default="deny", unknown_tool="allow"), is_known=False).effect is Effect.ALLOW
    assert find_effect(policy(default="deny", changed_tool="allow"), changed=True).effect is Effect.DENY


def test_the_kind_is_ours():
    assert PolicyRequest.for_tool("Bash").kind == "execute" and PolicyRequest.for_tool("delete_all").kind == "delete"
