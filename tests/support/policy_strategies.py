"""Hypothesis strategies for policies and for requests that they decide."""

from hypothesis import strategies as st

from toolcards.core.policy.decision import PolicyRequest


def list_arguments(paths, values):
    """Return every argument of a rule with these paths, operators and values.

    One choice among all of them takes a fifth of the time of a choice for each part.
    """
    return [
        {"path": path, "op": op, "value": value} | quant
        for op in sorted(values) for path in paths for value in values[op]
        for quant in ({}, {"quant": "any"}, {"quant": "all"})
    ]  # fmt: skip


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
arguments = st.sampled_from(
    list_arguments(PATHS, {op: of_op for op, of_op in VALUES.items() if op != "cmd"})
    + list_arguments(["/command", "/command", "/list/*"], {"cmd": VALUES["cmd"]})
).map(dict)
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
    now=st.sampled_from([0.0, 1.8e9]), is_known=st.booleans(),
    changed=st.booleans(), can_wait=st.just(True), counts=st.sampled_from([{}, {("run", 600): 9}]),
)  # fmt: skip


def add_ids(document):
    """Give every rule an id of its own, so that adding and moving rules renames none."""
    return {**document, "rules": [{"id": f"r{number}", **rule} for number, rule in enumerate(document["rules"])]}


class AllRules:
    """An index that returns every rule."""

    def __init__(self, rules):
        self.rules = rules

    def find_candidates(self, context):
        return self.rules


def disable_index(policy):
    """Make the policy evaluate every rule."""
    policy.__dict__["_index"] = AllRules(policy.rules)
    return policy
