"""The schema of policy documents, for editors."""

from __future__ import annotations

import jsonschema_rs
import pytest

from toolcards.core.policy.language.document import PolicyError, build_schema, parse


def test_the_schema_is_there_for_editors():
    assert {"default", "rules", "unknown_tool"} <= set(build_schema()["properties"])


@pytest.mark.parametrize(
    ("rule", "accepted"),
    [
        ({"match": {"tool": "bash"}}, True),
        ({"match": {"tool": ["bash", "sh"]}}, True),
        ({"match": {"args": {"path": "/command", "op": "eq", "value": 1}}}, True),
        ({"unless": {"kind": "read"}}, True),
        ({"expires_at": "2027-01-31T12:00:00Z"}, True),
        ({"ask": {"decide_ttl": "15m", "use_ttl": 60}, "effect": "ask"}, True),
        ({"ask": {"decide_ttl": "15 minutes"}, "effect": "ask"}, False),
        ({"match": {"tool": 1}}, False),
        ({"match": {"tools": "bash"}}, False),
    ],
)
def test_the_schema_for_editors_accepts_what_the_parser_accepts(rule, accepted):
    document = {"v": 1, "rules": [{"effect": "deny", **rule}]}
    validator = jsonschema_rs.Draft202012Validator(build_schema(), offline=True)
    assert validator.is_valid(document) == accepted
    if accepted:
        assert parse(document).rules
    else:
        with pytest.raises(PolicyError):
            parse(document)
