"""The rule that a person makes from a call: one of its suggestions, for a run, an agent or all, for a while."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from dashboard.policy.rules.suggestions import Suggestion, suggest_rules
from toolcards.core.calls.card import Card
from toolcards.models import ToolCall

EXPIRIES = (("1h", "for an hour"), ("today", "today"), ("never", "until changed"))
MAX_NAME = 60
SCOPES = (("run", "this run"), ("agent", "this agent"), ("all", "all agents"))


def get_agent_name(call: ToolCall, card: Card) -> str:
    """Return the agent's name, as rules use it."""
    return (card.agent_path or (call.run.source.name,))[-1]


def read_choices(choices: dict[str, str], card: Card, steps: list[Suggestion]) -> dict[str, str]:
    """Return the chosen options, else the narrowest and most likely ones."""
    narrow = {"rung": steps[0].name if steps else "", "effect": guess_effect(card)}
    return (
        narrow
        | {"scope": SCOPES[0][0], "expiry": EXPIRIES[0][0]}
        | {name: word for name, word in choices.items() if word}
    )


def build_rule(call: ToolCall, card: Card, choices: dict[str, str]) -> dict[str, Any]:
    """Return the rule of the choices; the narrowest for unknown choices."""
    steps = suggest_rules(card)
    step = next((step for step in steps if step.name == choices.get("rung")), steps[0] if steps else None)
    match = dict(step.match) if step else {"tool": [card.tool.name.replace("*", "")]}
    match |= _build_scope_condition(choices.get("scope", ""), call, card)
    effect = _get_effect(choices, card)
    rule_document: dict[str, Any] = {"id": _suggest_name(effect, match), "effect": effect, "match": match}
    expires = _compute_expiry(choices.get("expiry", ""))
    return rule_document | ({"expires_at": expires} if expires else {})


def _suggest_name(effect: str, match: dict[str, Any]) -> str:
    """Return a name that says what the rule is about, such as deny-git-push-deletes."""
    values = [condition["value"] for condition in match.get("args", ()) if condition["op"] in ("cmd", "effect")]
    about = values or match.get("tool") or match.get("kind") or []
    words = re.findall(r"[a-z0-9]+", " ".join(map(str, about)).lower())
    return "-".join([effect, *words])[:MAX_NAME].rstrip("-")


def _build_scope_condition(scope: str, call: ToolCall, card: Card) -> dict[str, list[str]]:
    """Return the condition for the agents in scope.

    The narrowest that names can express, because `*` in a name matches more.
    """
    agent, run = get_agent_name(call, card), call.run.name
    if scope == "all":
        return {}
    if scope != "agent" and "*" not in run:
        return {"run": [run]}
    return {} if re.search(r"[*,]", agent) else {"agent": [agent]}


def _get_effect(choices: dict[str, str], card: Card) -> str:
    return choices["effect"] if choices.get("effect") in {"allow", "ask", "deny"} else guess_effect(card)


def guess_effect(card: Card) -> str:
    """Return the likely effect: what a person has answered."""
    if card.denied_by and card.denied_by.kind == "human":
        return "deny"
    actor = card.approval.by if card.approval else None
    return "allow" if actor and actor.kind == "human" else "ask"


def _compute_expiry(expiry: str) -> str:
    now = datetime.now(UTC)
    if expiry == "1h":
        return (now + timedelta(hours=1)).isoformat(timespec="seconds")
    if expiry == "today":
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        return midnight.isoformat(timespec="seconds")
    return ""
