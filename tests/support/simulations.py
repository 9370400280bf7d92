"""Drafts that a simulation compares with the active policy."""

from __future__ import annotations

from typing import Any

from dashboard.policy.simulation.past_calls import Span
from toolcards.core.policy.language.document import parse

ANY = Span(days=0)
PUSH = {"id": "no-push", "effect": "deny", "match": {"args": [{"path": "/command", "op": "cmd", "value": "git push"}]}}


def draft(*rules: dict[str, Any], default: str = "allow") -> Any:
    return parse({"v": 1, "default": default, "rules": list(rules)})
