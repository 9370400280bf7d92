"""Rules that can never win: found by examples of their calls, and never claimed where the rule does win a call."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.beaten_rules import find_winners
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS

INSIDE = {"path": "", "op": "inside_project"}
ASK_SHELL = {"id": "ask", "effect": "ask", "match": {"kind": ["execute"]},
             "unless": [{"args": [{"path": "", "op": "effect", "value": "none"}]}]}  # fmt: skip


def cmd(*texts: str, **labels: Any) -> dict[str, Any]:
    return {"args": [{"path": "", "op": "cmd", "value": list(texts)}], **labels}


def list_winners(match: dict[str, Any], *rules: dict[str, Any], effect: str = "allow", **head: Any) -> list[str]:
    document = {"default": "ask", **head, "rules": [*rules, {"id": "new", "effect": effect, "match": match}]}
    beaten = find_winners(parse(document), "new")
    return [rule.id for rule in beaten.winners] if beaten else []


def exempt(clause: dict[str, Any]) -> dict[str, Any]:
    return ASK_SHELL | {"unless": [clause]}


@pytest.mark.parametrize(
    ("match", "rules"),
    [
        (cmd("make test"), [ASK_SHELL]),
        (cmd("make test", tool=["Bash"]), [ASK_SHELL]),
        (cmd("unheard-of run"), [ASK_SHELL]),
        ({"tool": ["Bash"]}, [ASK_SHELL]),  # what is read-only is allowed anyway, but for the default
        ({"tool": ["run_*"]}, [{"id": "ask", "effect": "deny", "match": {"tool": "run_*"}}]),
        ({"kind": ["edit"], "args": [INSIDE]}, [{"id": "ask", "effect": "ask", "match": {"kind": ["edit"]}}]),
        ({"tool": ["send_mail"], "agent": ["a"]}, [{"id": "ask", "effect": "ask", "match": {"agent": "*"}}]),
        ({"tool": ["f"], "args": [{"path": "/to", "op": "eq", "value": "x"}]},
         [{"id": "ask", "effect": "ask", "match": {"args": [{"path": "/to", "op": "in", "value": ["x", "y"]}]}}]),
    ],
)  # fmt: skip
def test_a_rule_is_beaten_if_a_stricter_one_decides_about_each_of_its_calls(match: Any, rules: Any) -> None:
    reads = {"id": "reads", "effect": "allow", "match": {"args": [{"path": "", "op": "effect", "value": "none"}]}}
    assert list_winners(match, *rules, reads) == ["ask"]


@pytest.mark.parametrize(
    ("match", "rule"),
    [
        (cmd("make test"), exempt(cmd("make test"))),
        (cmd("make test"), exempt({"env": ["dev"]})),
        (cmd("make test"), exempt({"agent": ["helper"]})),
        (cmd("make test"), ASK_SHELL | {"match": {"kind": ["execute"], "env": ["prod"]}}),
        (cmd("make test", "rm"), {"id": "ask", "effect": "deny", "match": cmd("rm")}),
        ({"tool": ["Bash"]}, {"id": "ask", "effect": "deny", "match": cmd("rm")}),
        ({"tool": ["f", "g"]}, {"id": "ask", "effect": "deny", "match": {"tool": "f"}}),
        ({"tool": ["f"], "source": ["a", "b"]}, {"id": "ask", "effect": "deny", "match": {"source": "a"}}),
        ({"tool": ["f"]}, {"id": "ask", "effect": "ask", "match": {"tool": "f"},
                           "unless": [{"args": [{"path": "/to", "op": "eq", "value": "me"}]}]}),
        ({"tool": ["f"]}, {"id": "ask", "effect": "deny", "match": {"tool": "f"}, "expires_at": 9e9}),
        ({"tool": ["f"]}, {"id": "ask", "effect": "deny", "match": {"tool": "f"}, "enabled": False}),
        ({"tool": ["Edit"]}, {"id": "ask", "effect": "ask", "match": {"kind": ["edit"]},
                              "unless": [{"args": [INSIDE]}]}),
    ],
)  # fmt: skip
def test_a_rule_that_wins_some_call_is_not_beaten(match: Any, rule: Any) -> None:
    assert list_winners(match, rule) == []


def test_denies_beat_asks_and_nothing_beats_a_deny() -> None:
    deny, ask = ({"id": effect, "effect": effect, "match": {"tool": "f"}} for effect in ("deny", "ask"))
    assert list_winners({"tool": ["f"]}, deny, effect="ask") == ["deny"]
    assert list_winners({"tool": ["f"]}, ask, effect="ask") == []
    assert list_winners({"tool": ["f"]}, deny, ask, effect="deny") == []


@pytest.mark.parametrize("name", PRESETS)
def test_every_rule_of_a_starter_has_an_effect(name: str) -> None:
    policy = parse(PRESETS[name].document)
    assert [rule.id for rule in policy.rules if find_winners(policy, rule.id)] == []


def test_the_example_is_a_call_that_the_winner_decides() -> None:
    policy = parse(
        {"default": "allow", "rules": [ASK_SHELL, {"id": "new", "effect": "allow", "match": cmd("make test")}]}
    )
    beaten = find_winners(policy, "new")
    assert beaten is not None and beaten.example == "Bash make test"
    decision = decide(policy, PolicyRequest.for_tool("Bash", input={"command": "make test"}))
    assert (decision.effect, decision.rule) == (Effect.ASK, beaten.winners[0].id)
