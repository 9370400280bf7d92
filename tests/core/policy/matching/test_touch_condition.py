"""Rules with `touches`: undecided counts for those that ask or deny, never for those that allow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.core.policy.matching.touch_condition import TouchCondition


def find_effect(document: dict[str, Any], tool: str, value: Any, **fields: Any) -> Effect:
    return decide(parse(document), PolicyRequest.for_tool(tool, input=value, **fields)).effect


ROWS = [
    ("deny", "allow", "cat ~/.ssh/id", "deny"),
    ("deny", "allow", "cat ~/.ss*/id", "deny"),
    ("deny", "allow", "cat a", "allow"),
    ("ask", "allow", "cat ~/.ssh/id", "ask"),
    ("ask", "allow", "cat ~/.ss*/id", "ask"),
    ("ask", "allow", "cat a", "allow"),
    ("allow", "ask", "cat ~/.ssh/id", "allow"),
    ("allow", "ask", "cat ~/.ss*/id", "ask"),
    ("allow", "ask", "cat a", "ask"),
]


@loop_over(("effect", "default", "command", "answer"), ROWS)
@pytest.mark.parametrize("path", ["", "/command"])
def test_what_is_undecided_never_lets_a_call_through(
    path: str, effect: str, default: str, command: str, answer: str
) -> None:
    rule = {"effect": effect, "match": {"args": [{"path": path, "op": "touches", "value": "secrets"}]}}
    assert find_effect({"default": default, "rules": [rule]}, "Bash", {"command": command}) == answer


def test_an_exception_for_secrets_holds_where_it_is_undecided_only_for_a_rule_that_allows() -> None:
    exception = [{"args": [{"path": "", "op": "touches", "value": "secrets"}]}]
    for effect, default, answer in (("allow", "ask", "ask"), ("deny", "allow", "deny")):
        rule = {"effect": effect, "match": {"tool": ["Read"]}, "unless": exception}
        assert find_effect({"default": default, "rules": [rule]}, "Read", {"file_path": "~/.ss*"}) == answer


def test_an_input_that_is_not_known_is_undecided() -> None:
    rule = {"effect": "deny", "match": {"args": [{"path": "", "op": "touches", "value": "secrets"}]}}
    assert find_effect({"default": "allow", "rules": [rule]}, "Read", None, has_input=False) == "deny"


def test_all_or_any_of_the_values_count() -> None:
    for quant, answer in (("any", "deny"), ("all", "allow")):
        argument = {"path": "/paths/*", "op": "touches", "value": ["secrets"], "quant": quant}
        document = {"default": "allow", "rules": [{"effect": "deny", "match": {"args": [argument]}}]}
        assert find_effect(document, "read_many_files", {"paths": ["a", "~/.netrc"]}) == answer
        assert find_effect(document, "read_many_files", {"paths": []}) == "allow"


def test_the_starters_that_ask_ask_about_secrets_at_a_high_risk_before_any_allow() -> None:
    for name in ("ask-on-writes", "locked-down", "follow-the-agent"):
        policy = parse(PRESETS[name].document)
        for tool, value in [
            ("Read", {"file_path": "~/.ssh/id_rsa"}),
            ("Bash", {"command": "cat ~/.ssh/id_rsa"}),
            ("WebFetch", {"url": "http://169.254.169.254/"}),
            ("Grep", {"pattern": "x", "path": "~/.aws"}),
        ]:
            decision = decide(policy, PolicyRequest.for_tool(tool, input=value))
            assert decision.effect is Effect.ASK and decision.ask is not None and decision.ask.severity == "high"


def test_the_condition_is_named_after_its_path() -> None:
    assert TouchCondition(("a", "b"), frozenset({"secrets"}), every=False).name == "/a/b touches"
