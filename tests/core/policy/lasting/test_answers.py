"""Lasting answers: what one promises is what the next call of its kind gets; nothing strict is loosened."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.policy_strategies import add_ids, documents, questions
from toolcards.core.policy.decision import Effect, PolicyRequest, RuleSet, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.lasting.answers import (
    LastingAnswer,
    add_rule,
    explain_refusal,
    list_asking_ids,
    list_lasting_answers,
    list_rules,
    remove_rule,
)

POLICIES = documents.map(add_ids).map(lambda document: {**document, "default": "ask"}) | documents.map(add_ids)
EFFECTS = st.sampled_from([Effect.ALLOW, Effect.DENY])
COMMANDS = st.sampled_from(
    ["git push", "git push origin main", "npm install zod && ls", "make test", "rm -rf /", "x $Y"]
)
CALLS = questions | st.builds(
    PolicyRequest.for_tool, st.sampled_from(["Bash", "exec_command"]),
    input=st.fixed_dictionaries({"command": COMMANDS, "cmd": COMMANDS}) | st.builds(lambda c: {"command": c}, COMMANDS),
    agent_path=st.sampled_from([(), ("boss",), ("boss", "sub")]), run=st.sampled_from(["", "r"]),
)  # fmt: skip


def drop_empty_exceptions(rule: dict[str, Any]) -> dict[str, Any]:
    return rule if rule.get("unless") else {name: value for name, value in rule.items() if name != "unless"}


def give(policy: RuleSet, request: PolicyRequest, answer: LastingAnswer, effect: Effect) -> dict[str, Any]:
    """Return the document of the policy after this answer."""
    asking_ids = list_asking_ids(policy, decide(policy, request))
    document = {"v": 1, **policy.document, "rules": list_rules(policy)}
    return add_rule(document, answer.build_rule(effect), asking_ids)


@given(POLICIES, CALLS, EFFECTS)
def test_the_next_same_call_gets_what_the_answer_promised(
    document: Any, request: PolicyRequest, effect: Effect
) -> None:
    policy = parse(document)
    answers = list_lasting_answers(policy, request, decide(policy, request), effect)
    for answer in answers:
        assert decide(parse(give(policy, request, answer, effect)), request).effect is effect


@pytest.mark.slow
@given(POLICIES, CALLS, CALLS)
def test_an_answer_that_allows_loosens_no_deny_and_only_what_it_names(
    document: Any, request: PolicyRequest, other: PolicyRequest
) -> None:
    policy = parse(document)
    answers = list_lasting_answers(policy, request, decide(policy, request))
    before = decide(policy, other).effect
    for answer in answers:
        changed_policy = parse(give(policy, request, answer, Effect.ALLOW))
        after = decide(changed_policy, other).effect
        if after.strictness < before.strictness:
            assert before is Effect.ASK or decide(policy, other).code in {"default", "no_approver", "unknown_tool"}
            rule = parse({"v": 1, "default": "deny", "rules": [answer.build_rule(Effect.ALLOW)]})
            is_covered_by_several_rules = bool({"&", ";"}.intersection(str(other.input)))
            assert is_covered_by_several_rules or decide(rule, other).effect is Effect.ALLOW


@pytest.mark.slow
@given(POLICIES, CALLS, EFFECTS)
def test_an_answer_that_is_taken_back_leaves_the_policy_as_it_was(
    document: Any, request: PolicyRequest, effect: Effect
) -> None:
    policy = parse({**document, "rules": [drop_empty_exceptions(rule) for rule in document["rules"]]})
    for answer in list_lasting_answers(policy, request, decide(policy, request), effect):
        given_document = give(policy, request, answer, effect)
        back = remove_rule(given_document, answer.build_rule(effect)["id"])
        assert back == {"v": 1, **policy.document, "rules": list_rules(policy)}
        assert remove_rule(back, answer.build_rule(effect)["id"]) is None


HIGH = {"id": "h", "effect": "ask", "severity": "high", "match": {"kind": ["execute"]}}


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([HIGH], "high risk"),
        ([HIGH | {"severity": "critical"}], "high risk"),
        ([HIGH | {"severity": "low", "ask": {"quorum": 2}}], "Several people"),
        ([HIGH | {"severity": "low", "ask": {"grants": ["once"]}}], "answer to each call"),
        ([HIGH | {"severity": "low"}, HIGH | {"id": "i"}], "high risk"),
        ([HIGH | {"effect": "allow"}], "Only what a rule asks about"),
    ],
)
def test_why_there_is_no_lasting_answer_is_said(rules: Any, words: str) -> None:
    policy = parse({"v": 1, "default": "ask", "rules": rules})
    request = PolicyRequest.for_tool("Bash", input={"command": "git push"}, agent_path=("a",), run="r")
    decision = decide(policy, request)
    assert words in explain_refusal(policy, decision) and list_lasting_answers(policy, request, decision) == []


def test_an_answer_about_reading_tools_leaves_out_those_that_name_secrets() -> None:
    policy = parse({"v": 1, "default": "ask"})
    request = PolicyRequest.for_tool("get_ticket", input={"id": 1}, agent_path=("helper",))
    answer = list_lasting_answers(policy, request, decide(policy, request))[0]
    assert answer.value == "always:reads:agent"
    changed_policy = parse(give(policy, request, answer, Effect.ALLOW))
    effects = {
        tool: decide(changed_policy, PolicyRequest.for_tool(tool, input={"id": 1}, agent_path=("helper",))).effect
        for tool in ("get_order", "list_tickets", "get_secret_value", "read_api_key", "get_and_delete", "update_ticket")
    }
    assert [tool for tool, effect in effects.items() if effect is Effect.ALLOW] == ["get_order", "list_tickets"]


SECRET_CALLS: list[tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]]]] = [
    ("get_file", {"name": "a"}, [("get_file", {"path": "/home/me/.ssh/id_rsa"}), ("read_file2", {"path": "app/.env"})]),
    ("Edit", {"file_path": "/home/me/shop/a.py"}, [("Edit", {"file_path": "/home/me/shop/id_rsa"})]),
    ("save_file", {"id": 1}, [("save_file", {"path": "~/.aws/credentials"})]),
    ("Bash", {"command": "pytest -q"}, [("Bash", {"command": "pytest -q < .env"})]),
]


@pytest.mark.parametrize(("tool", "args", "secret_calls"), SECRET_CALLS)
def test_no_wide_answer_covers_secrets_even_where_no_rule_asks_about_them(
    tool: str, args: dict[str, Any], secret_calls: list[tuple[str, dict[str, Any]]]
) -> None:
    policy = parse({"default": "ask", "rules": []})
    request = PolicyRequest.for_tool(tool, input=args, root="/home/me/shop", agent_path=("bot",))
    answers = list_lasting_answers(policy, request, decide(policy, request))
    for answer in [each for each in answers if not each.value.startswith(("always:command", "always:like"))]:
        changed_policy = parse(add_rule(dict(policy.document), answer.build_rule(Effect.ALLOW), ()))
        for name, values in secret_calls:
            secret = PolicyRequest.for_tool(name, input=values, root="/home/me/shop", agent_path=("bot",))
            assert decide(changed_policy, secret).effect is Effect.ASK, (answer.value, values)


def test_a_call_that_is_only_described_has_no_lasting_answer() -> None:
    policy = parse({"v": 1, "default": "ask", "rules": []})
    described = {"title": "npm test", "kind": "execute", "rawInput": None}
    for value, has_answers in (({"command": "npm test"}, True), (described, False)):
        request = PolicyRequest.for_tool("Bash", input=value, agent_path=("a",), run="r")
        assert bool(list_lasting_answers(policy, request, decide(policy, request))) is has_answers


ADDRESSES = st.sampled_from(
    ["https://a.example/x", "https://b.example/x", "s3://c/x", "d@example.com", "e@example.org"]
)
ADDRESS_ARGUMENTS = st.dictionaries(
    st.sampled_from(["destination", "sink", "callback", "people"]),
    ADDRESSES | st.lists(ADDRESSES, min_size=1, max_size=3),
    min_size=1,
)
OTHER_ARGUMENTS = st.dictionaries(st.sampled_from(["format", "count"]), st.sampled_from(["csv", "", 3, None]))


@given(st.sampled_from(["export_rows", "share_file", "post_it"]), ADDRESS_ARGUMENTS, OTHER_ARGUMENTS, st.data())
def test_no_answer_about_a_tool_covers_an_address_that_its_call_does_not_have(
    tool: str, addresses: dict[str, Any], others: dict[str, Any], data: st.DataObject
) -> None:
    policy = parse({"default": "ask", "rules": []})
    request = PolicyRequest.for_tool(tool, input=addresses | others, agent_path=("bot",))
    name = data.draw(st.sampled_from(sorted(addresses)))
    changed_value = data.draw(
        (ADDRESSES | st.lists(ADDRESSES, min_size=1)).filter(lambda each: each != addresses[name])
    )
    changed = PolicyRequest.for_tool(tool, input=addresses | others | {name: changed_value}, agent_path=("bot",))
    answers = list_lasting_answers(policy, request, decide(policy, request))
    assert answers
    for answer in answers:
        changed_policy = parse(add_rule(dict(policy.document), answer.build_rule(Effect.ALLOW), ()))
        assert decide(changed_policy, request).effect is Effect.ALLOW or answer.value.endswith(":run")
        assert decide(changed_policy, changed).effect is Effect.ASK, (answer.value, changed_value)
