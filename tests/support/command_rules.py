"""Policies of rules about commands, and what they decide."""

from __future__ import annotations

from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.core.policy.language.document import parse


def policy(effect, words, default="deny", tool="Bash"):
    condition = {"path": "/command", "op": "cmd", "value": words}
    return parse(
        {"default": default, "rules": [{"id": "r", "effect": effect, "match": {"tool": tool, "args": [condition]}}]}
    )


DENY_RM = policy("deny", "rm", default="allow")


def find_effect(rules, command, tool="Bash"):
    return decide(rules, PolicyRequest.for_tool(tool, input={"command": command}))
