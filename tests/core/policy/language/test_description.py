"""Rules as English sentences."""

from __future__ import annotations

import pytest

from toolcards.core.policy.language.document import describe_rule, parse


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"effect": "deny", "match": {"tool": "Bash"}}, "Deny when Bash is called."),
        ({"effect": "allow"}, "Allow every call."),
        ({"effect": "ask",
        "match": {"tool": "Bash", "args": {"path": "/command", "op": "prefix", "value": "git push"}},
          "unless": {"args": {"path": "/command", "op": "eq", "value": "git push --dry-run"}}},
         "Ask when Bash.command starts with “git push”, unless input.command is “git push --dry-run”."),
        ({"effect": "allow", "match": {"kind": ["read", "search"], "env": "dev"}},
        "Allow when the tool’s kind is read or search and it runs in dev."),
        ({"effect": "deny", "match": {"tool": ["a", "b*"], "args": {"path": "/n", "op": "gt", "value": 5}}},
        "Deny when a or b*.n is greater than 5."),
    ],
)  # fmt: skip
def test_a_rule_reads_as_a_sentence(rule, text):
    assert describe_rule(parse({"rules": [rule]}).rules[0]) == text
