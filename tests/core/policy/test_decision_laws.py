"""Laws that hold for every policy and every call: order is nothing, milder rules loosen only the default."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcards.core.policy.decision import Effect, PolicyGrant, PolicyRequest, combine, decide
from toolcards.core.policy.language.document import parse

TOOLS = ["Bash", "Read", "git_push", "frob"]
PATHS = ["/command", "/path", "/url", "/n", "/list/*"]
VALUES = {
    "cmd": ["rm", "git push", "ls", ["ls", "cat"], "git"], "eq": ["ls", 1, None, "git push"],
    "prefix": ["ls", "git", "/data"], "glob": ["*push*", "ls*"],
    "re2": ["ls.*", "[a-z ]+"], "path_under": ["/data", "/etc"], "host_in": ["good.com"], "cidr": ["10.0.0.0/8"],
    "gt": [1], "type": ["string"], "exists": [None],
    "absent": [None], "len_gt": [3], "in": [["ls", 1]],
}  # fmt: skip
COMMANDS = [
    "ls",
    "rm x",
    "ls && rm x",
    "git push",
    "git -c a=b push",
    "ls $X",
    "ls | cat y",
    "sudo rm x",
    "",
    "find . -delete",
    "git status; ls",
    "bash",
    "rm; $X",
]

arguments = st.sampled_from(sorted(VALUES)).flatmap(
    lambda op: st.fixed_dictionaries(
        {
            "path": st.sampled_from(PATHS) if op != "cmd" else st.sampled_from(["/command", "/command", "/list/*"]),
            "op": st.just(op),
            "value": st.sampled_from(VALUES[op]),
        },
        optional={"quant": st.sampled_from(["any", "all"])},
    )
)
clauses = st.fixed_dictionaries(
    {},
    optional={
        "tool": st.lists(st.sampled_from([*TOOLS, "*", "git_*", "B*"]), min_size=1, max_size=2),
        "kind": st.sampled_from(["execute", "read", "other"]),
        "agent": st.sampled_from(["boss", "sub", "*"]), "env": st.just("prod"),
        "args": st.lists(arguments, max_size=2), "when": st.just({"from": "08:00", "to": "18:00"}),
        "rate": st.just({"over": 3, "per": "10m"}),
    },
)  # fmt: skip
rules = st.fixed_dictionaries(
    {"effect": st.sampled_from(["allow", "ask", "deny"]), "match": clauses},
    optional={
        "unless": st.lists(clauses, max_size=2), "severity": st.sampled_from(["low", "critical"]),
        "mode": st.just("monitor"), "enabled": st.booleans(),
        "expires_at": st.sampled_from([None, 5.0, 2e9]), "ask": st.just({"quorum": 2, "approvers": ["group:a"]}),
    },
)  # fmt: skip
effects = st.sampled_from(["allow", "ask", "deny"])
documents = st.fixed_dictionaries(
    {"default": effects, "rules": st.lists(rules, max_size=6)},
    optional={"unknown_tool": effects, "changed_tool": effects, "overridable": st.booleans()},
)
inputs = st.fixed_dictionaries(
    {},
    optional={
        "command": st.sampled_from([*COMMANDS, None, 5, ["ls"], ["rm", "x"], []]),
        "path": st.sampled_from(["/data/a", "/data/../etc", "a", 1]),
        "url": st.sampled_from(["https://good.com", "http://10.0.0.1", "good.com", {}]),
        "n": st.sampled_from([1, 2, True, "2", None]),
        "list": st.lists(st.sampled_from(COMMANDS), max_size=3) | st.none() | st.just({}),
    },
)  # fmt: skip
questions = st.builds(
    PolicyRequest.for_tool, st.sampled_from(TOOLS),
    input=inputs | st.sampled_from([None, "x", [], float("nan"), "\ud800"]),
    has_input=st.sampled_from([True, True, True, False]),
    agent_path=st.sampled_from([(), ("boss",), ("boss", "sub")]), env=st.sampled_from(["", "prod"]),
    now=st.sampled_from([0.0, 1.8e9]), known=st.booleans(),
    changed=st.booleans(), can_wait=st.just(True), counts=st.sampled_from([{}, {("run", 600): 9}]),
)  # fmt: skip


def named(document):
    """Give every rule a name of its own, so that adding and moving rules renames nothing."""
    return {**document, "rules": [{"id": f"r{number}", **rule} for number, rule in enumerate(document["rules"])]}


def with_rule(document, rule):
    return {**document, "rules": [*document["rules"], {"id": "new", **rule}]}


@settings(deadline=None)
@given(documents)
def test_terms_joined_with_themselves_stay_the_same(document):
    assert all(rule.ask.union(rule.ask) == rule.ask for rule in parse(named(document)).rules)


@settings(deadline=None)
@given(documents, questions, st.randoms())
def test_the_order_of_rules_changes_nothing(document, question, random):
    document = named(document)
    mixed = {**document, "rules": random.sample(document["rules"], len(document["rules"]))}
    assert decide(parse(document), question) == decide(parse(mixed), question)


@settings(deadline=None, max_examples=150)
@given(documents, questions, rules)
def test_an_allow_rule_loosens_nothing_but_the_default(document, question, rule):
    document = named(document)
    before = decide(parse(document), question)
    after = decide(parse(with_rule(document, {**rule, "effect": "allow"})), question)
    looser = after.effect.strictness < before.effect.strictness
    assert not looser or before.code in {"default", "unknown_tool"}
    assert (
        before.effect is not Effect.DENY
        or before.code != "rule_denied"
        or replace(after, would=()) == replace(before, would=())
    )


@settings(deadline=None, max_examples=150)
@given(documents, questions, rules, st.sampled_from(["ask", "deny"]))
def test_a_strict_rule_loosens_nothing_but_a_default_deny_that_becomes_an_ask(document, question, rule, effect):
    document = named(document)
    before = decide(parse(document), question)
    after = decide(parse(with_rule(document, {**rule, "effect": effect})), question)
    looser = after.effect.strictness < before.effect.strictness
    if before.code == "unknown_tool" and question.tool in rule["match"].get("tool", ()):
        return  # whoever names a tool knows it
    assert not looser or (effect == "ask" and before.code == "default" and after.effect is Effect.ASK)


@settings(deadline=None)
@given(documents, questions)
def test_every_call_gets_a_whole_answer(document, question):
    policy = parse(named(document))
    decision = decide(policy, question)
    assert decision.effect in Effect and decision.code != "gate_error" and decision.reason and decision.by.kind
    assert (decision.ask is None) == (decision.effect is not Effect.ASK)
    assert decide(policy, question, explain=True).effect is decision.effect
    headless = decide(policy, replace(question, can_wait=False))
    assert headless.effect is not Effect.ASK and decide(policy, question, kill_switch=True).code == "kill_switch"


@settings(deadline=None)
@given(documents, questions)
def test_a_monitoring_or_disabled_rule_decides_nothing(document, question):
    document = named(document)
    live = [rule for rule in document["rules"] if rule.get("mode") != "monitor" and rule.get("enabled", True)]
    assert replace(decide(parse(document), question), would=()) == decide(parse({**document, "rules": live}), question)


@settings(deadline=None, max_examples=200)
@given(documents, documents, questions)
def test_a_lower_layer_weakens_nothing_unless_it_may(upper, lower, question):
    upper = parse({**named(upper), "overridable": False})
    lower = replace(
        parse(named(lower)), rules=tuple(replace(rule, id="low_" + rule.id) for rule in parse(named(lower)).rules)
    )
    alone, both = decide(upper, question), decide(combine([upper, lower]), question)
    assert both.effect.strictness >= alone.effect.strictness


@settings(deadline=None)
@given(documents, questions, st.booleans())
def test_grants_never_touch_a_deny(document, question, any_input):
    policy = parse(named(document))
    names = [rule.id for rule in policy.rules] + ["default", "unknown_tool", "changed_tool"]
    grants = [PolicyGrant(name, policy.rule_sha256(name), question.tool, any_input=True) for name in names]
    before, after = decide(policy, question), decide(policy, question, grants=grants)
    if before.effect is not Effect.ASK:
        assert after == before
    else:
        assert after.effect in {Effect.ASK, Effect.ALLOW}
