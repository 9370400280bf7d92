"""A small model of policy, written only from its documentation, to compare `decide` with.

Truths are "no", "maybe" and "yes". It covers plain labels and a few operators; shell commands have other tests.
"""

from __future__ import annotations

import json
from typing import Any

STRICT = ("allow", "ask", "deny")
ABSENT = object()


def expected(document: dict[str, Any], call: dict[str, Any], *, kill_switch: bool = False) -> tuple[str, str]:
    """Return effect and code: kill switch > deny > unsatisfied ask > allow > default."""
    if kill_switch:
        return "deny", "kill_switch"
    matching = {effect: [rule for rule in document["rules"] if counts(rule, effect, call)] for effect in STRICT}
    identity = strictest_identity(document, call)
    if matching["deny"]:
        return "deny", "rule_denied"
    if identity[0] == "deny":
        return identity
    if matching["ask"]:
        return "ask", "rule_asks"
    if identity[0] == "ask":
        return identity
    if matching["allow"]:
        return "allow", "rule_allowed"
    return identity if identity[0] == "allow" else (document["default"], "default")


def strictest_identity(document: dict[str, Any], call: dict[str, Any]) -> tuple[str, str]:
    """Return what a changed or unknown tool demands, ("", "") where it is left to the default."""
    demands = [("", "")]
    if call["changed"] and document.get("changed_tool") in ("ask", "deny"):
        demands.append((document["changed_tool"], "changed_tool"))
    is_named = any(
        rule.get("enabled", True) and rule.get("mode") != "monitor" and call["tool"] in rule["match"].get("tool", ())
        for rule in document["rules"]
    )
    if document.get("unknown_tool") and not call["is_known"] and not is_named:
        demands.append((document["unknown_tool"], "unknown_tool"))
    return max(demands, key=lambda demand: ("", *STRICT).index(demand[0]))


def counts(rule: dict[str, Any], effect: str, call: dict[str, Any]) -> bool:
    """Return whether an enforced rule of this effect matches: doubt counts for ask and deny, not for allow."""
    if rule["effect"] != effect or not rule.get("enabled", True) or rule.get("mode") == "monitor":
        return False
    wide = effect != "allow"
    truths = [holds(rule["match"], call, wide)]
    truths += [
        {"yes": "no", "no": "yes"}.get(truth := holds(one, call, not wide), truth) for one in rule.get("unless", ())
    ]
    return all(truth == "yes" or (wide and truth == "maybe") for truth in truths)


def holds(clause: dict[str, Any], call: dict[str, Any], wide: bool) -> str:
    """Return whether all conditions of a clause hold."""
    truths = ["yes"]
    for name, texts in (("tool", [call["tool"]]), ("env", [call["env"]]), ("agent", call["agent_path"])):
        if name in clause:
            texts = texts if name != "agent" or wide else texts[-1:]
            if wide:  # every other spelling of a name is the same name to a strict rule
                texts = [text.lower().strip() for text in texts] if name != "env" else texts
            words = [word.lower() if wide and name != "env" else word for word in clause[name]]
            truths.append("yes" if any(text and text in words for text in texts) else "no")
    for argument in clause.get("args", ()):
        truths.append(evaluate_argument(argument, call["input"], wide) if call["has_input"] else "maybe")
    return "no" if "no" in truths else "maybe" if "maybe" in truths else "yes"


def evaluate_argument(argument: dict[str, Any], value: Any, wide: bool) -> str:
    """Return the answer over all values at the path: one is enough for a strict rule, an allow needs them all."""
    values, whole = reached([value], argument["path"].split("/")[1:])
    if not whole:
        return "maybe"
    if not values:
        return "yes" if argument["op"] == "absent" else "no"
    truths = [about(argument["op"], one, argument.get("value")) for one in values]
    every = argument.get("quant", "any" if wide else "all") == "all"
    for first, second in (("no", "maybe"), ("maybe", "yes")) if every else (("yes", "maybe"), ("maybe", "no")):
        if first in truths:
            return first
        if set(truths) == {second}:
            return second
    return truths[0]


def reached(values: list[Any], steps: list[str]) -> tuple[list[Any], bool]:
    """Return the values that the path leads to, and whether every step of it could be taken."""
    for step in steps:
        below: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, dict | list):
                return [], False
            children = value.values() if isinstance(value, dict) else value
            if step == "*":
                below += children
            elif isinstance(value, dict):
                below += [value[step]] if step in value else []
            elif not step.isdigit():
                return [], False
            elif int(step) < len(value):
                below.append(value[int(step)])
        values = below
    return values, True


def about(op: str, value: Any, words: Any) -> str:
    """Return one operator's answer about one value."""
    if op in ("exists", "absent"):
        return "yes" if op == "exists" else "no"
    if op == "eq":
        return "yes" if json.dumps(value, sort_keys=True) == json.dumps(words, sort_keys=True) else "no"
    if op == "prefix":
        return "maybe" if not isinstance(value, str) else "yes" if value.startswith(words) else "no"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "maybe"
    return "yes" if value > words else "no"
