"""`decide` is held against a tiny model of policy, over random policies and calls, also where work runs out."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.policy_model import STRICT, expected
from tests.support.policy_strategies import list_arguments
from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.core.policy.language.document import parse

TOOLS = ["bash", "Bash", "read", "frob", "BASH "]
VALUES = {"eq": ["ls", 1, None, [1]], "prefix": ["l", "/etc"], "gt": [1], "exists": [None], "absent": [None]}
PATHS = ["/a", "/list/*", "/list/0", "/a/b"]
arguments = st.sampled_from(list_arguments(PATHS, VALUES)).map(dict)
clauses = st.fixed_dictionaries(
    {},
    optional={
        "tool": st.lists(st.sampled_from(TOOLS[:4]), min_size=1, max_size=2), "env": st.just(["prod"]),
        "agent": st.lists(st.sampled_from(["boss", "sub"]), min_size=1, max_size=1),
        "args": st.lists(arguments, min_size=1, max_size=2),
    },
)  # fmt: skip
rules = st.fixed_dictionaries(
    {"effect": st.sampled_from(STRICT), "match": clauses},
    optional={
        "unless": st.lists(clauses, min_size=1, max_size=2),
        "mode": st.just("monitor"),
        "enabled": st.booleans(),
    },
)
effects = st.sampled_from(STRICT)
documents = st.fixed_dictionaries(
    {"default": effects, "rules": st.lists(rules, max_size=6)},
    optional={"unknown_tool": effects, "changed_tool": effects},
)
values = st.sampled_from(["ls", "/etc/x", 1, 2, True, None, {"b": "ls"}, [1]])
calls = st.fixed_dictionaries({
    "tool": st.sampled_from(TOOLS), "env": st.sampled_from(["", "prod"]), "is_known": st.booleans(),
    "changed": st.booleans(), "agent_path": st.sampled_from([(), ("boss",), ("boss", "sub")]),
    "has_input": st.sampled_from([True, True, True, False]),
    "input": st.fixed_dictionaries({}, optional={"a": values, "list": st.lists(values, max_size=3) | st.just("x")}),
})  # fmt: skip


@draw(1_000)
@given(documents, calls, st.sampled_from([False, False, False, True]))
def test_policy_is_what_its_documentation_says(document, call, kill_switch):
    decision = decide(parse(document), PolicyRequest.for_tool(**call), kill_switch=kill_switch)
    assert (decision.effect, decision.code) == expected(document, call, kill_switch=kill_switch)


@draw(500)
@given(documents, calls, st.integers(0, 40))
def test_with_too_little_work_it_is_never_milder(document, call, limit):
    decision = decide(parse(document), PolicyRequest.for_tool(**call), limit=limit)
    effect, code = expected(document, call)
    if decision.code != "over_budget":
        assert (decision.effect, decision.code) == (effect, code)
    else:
        possible_effects = {
            rule["effect"] for rule in document["rules"] if rule.get("enabled", True) and rule.get("mode") != "monitor"
        }
        assert possible_effects and STRICT.index(decision.effect) >= max(STRICT.index(effect), 1)
        assert not decision.liftable
