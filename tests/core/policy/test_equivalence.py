"""What a policy looks at: calls that agree in that are answered alike, and nothing that counts is left out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.policy_strategies import add_ids, documents, questions
from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.core.policy.equivalence import MAX_CHARACTERS, collect_criteria
from toolcards.core.policy.language.document import parse


@draw(300)
@given(
    documents,
    questions,
    questions,
    st.sampled_from(["input", "has_input", "now", "run", "counts", "env", "agent_path"]),
)
def test_calls_with_the_same_footprint_are_answered_alike(document, question, other, part):
    policy = parse(add_ids(document))
    changed = replace(question, **{part: getattr(other, part)})
    looks_at = collect_criteria(policy.rules)
    if looks_at.key(question) == looks_at.key(changed):
        assert decide(policy, question) == decide(policy, changed)


def rules(**match):
    return parse({"rules": [{"effect": "ask", "match": match}]}).rules


def arg(op, value, path="/n"):
    return rules(args=[{"path": path, "op": op, "value": value}])


@pytest.mark.parametrize(
    ("looked_at", "one", "other"),
    [
        (arg("eq", 1), {"input": {"n": 1}}, {"input": {"n": True}}),
        (arg("eq", 1), {"input": {"n": 1}}, {"input": {"n": "1"}}),
        (arg("eq", 1), {"input": {"n": None}}, {"input": {}}),
        (arg("absent", None), {"input": {}}, {"input": {}, "has_input": False}),
        (arg("eq", {"n": 1}, ""), {"input": {"n": 1}}, {"input": {"n": 1, "m": 2}}),
        (arg("cmd", "ls"), {"input": {"n": ["ls"]}}, {"input": {"n": "['ls']"}}),
        (rules(run="r*"), {"run": "r1"}, {"run": "x"}),
        (rules(when={"from": "08:00", "to": "18:00"}), {"now": 1e9}, {"now": 2e9}),
        (rules(rate={"over": 1, "per": "10m"}), {"counts": {("run", 600): 9}}, {"counts": {}}),
        (rules(tool="Bash"), {"user": ("ana",)}, {"user": ("ben",)}),
    ],
)
def test_what_is_looked_at_tells_calls_apart(looked_at, one, other):
    looks_at, question = collect_criteria(looked_at), PolicyRequest("Bash", input={})
    assert looks_at.key(replace(question, **one)) != looks_at.key(replace(question, **other))


def test_what_no_rule_reads_does_not():
    looks_at = collect_criteria(arg("cmd", "ls", "/command"))
    one = PolicyRequest("Bash", input={"command": "ls", "why": "a"}, run="r1", now=1.0)
    other = PolicyRequest("Bash", input={"command": "ls", "why": "b"}, run="r2", now=2.0)
    assert looks_at.key(one) == looks_at.key(other)


def test_long_texts_are_not_kept_for_comparing():
    assert (
        collect_criteria(arg("exists", None)).key(PolicyRequest("Bash", input={"n": "x" * (MAX_CHARACTERS + 1)}))
        is None
    )
