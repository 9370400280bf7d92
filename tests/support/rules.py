"""Policies of a few rules, and decisions about one call."""

from __future__ import annotations

from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.decision import PolicyGrant, PolicyRequest, decide
from toolcards.core.policy.language.document import parse

NOON = 1_794_830_400.0  # Monday 2026-11-16 12:00 UTC


def policy(*rules, **more):
    rules = [{"id": f"r{number}", **rule} for number, rule in enumerate(rules)]
    return parse({"default": "allow", "rules": rules, **more}, version=7)


def find_effect(rules, tool="Bash", **more):
    options = {name: more.pop(name) for name in ("grants", "kill_switch", "eligible", "explain") if name in more}
    return decide(rules, PolicyRequest.for_tool(tool, **{"now": NOON, "input": {}, **more}), **options)


def rule(effect, match=None, **more):
    return {"effect": effect, "match": match or {"tool": "Bash"}, **more}


ALLOW, ASK, DENY = rule("allow"), rule("ask"), rule("deny")


def grant(rules, name="r0", **more):
    return PolicyGrant(
        **{
            "rule": name,
            "rule_sha256": rules.rule_sha256(name),
            "tool": "Bash",
            "digest": digest({"a": 1}),
            "id": "gra_1",
            **more,
        }
    )
