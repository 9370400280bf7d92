"""The trace of an evaluation, and what rates tell the gate."""

from __future__ import annotations

from tests.support.rules import DENY, find_effect, policy, rule


def test_the_trace_tells_what_every_condition_saw():
    match = {"tool": "Bash", "args": [{"path": "/command", "op": "prefix", "value": "git"}]}
    decision = find_effect(
        policy(rule("deny", match, unless=[{"env": "dev"}]), rule("ask", {"tool": "Read"})),
        input={"command": "ls"},
        explain=True,
    )
    first, second = decision.trace
    assert (first["rule"], first["matched"], first["truth"]) == ("r0", False, "false")
    assert [(c["clause"], c["what"], c["matched"], c["value"]) for c in first["conditions"]] == [
        ("match", "tool", "true", ["Bash"]), ("match", "/command prefix", "false", "ls"),
        ("unless/0", "env", "false", []),
    ]  # fmt: skip
    assert second["conditions"][0]["matched"] == "false" and find_effect(policy(DENY)).trace == ()


def test_rates_tell_the_gate_what_to_count():
    assert policy(rule("ask", {"rate": {"over": 1, "per": "1h", "scope": "user"}})).rates == {("user", 3600)}
