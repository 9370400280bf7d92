"""Policies, calls and requests for the tests of the policy pages."""

from __future__ import annotations

from typing import Any

from django.test import Client

from toolcards.models import ToolCall

NOT_EMPTY = {"effect": "deny", "tool": "Bash", "reason": "No shell."}
PUSH = {"id": "no-push", "effect": "deny", "public_reason": "No pushing.",
        "match": {"args": [{"path": "/command", "op": "cmd", "value": "git push"}]}}  # fmt: skip
HX = {"HX-Request": "true"}
SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def save(client: Client, **fields: Any) -> Any:
    return client.post("/policy/rules/new/", NOT_EMPTY | fields)


def rungs(client: Client, call: ToolCall) -> dict[str, int]:
    answer = client.get(f"/calls/{call.public_id}/rule/")
    assert answer.status_code == 200
    return {rung.name: rung.count for rung in answer.context["ladder"].rungs}


def read_fields(client: Client, rule_id: str) -> dict[str, Any]:
    """Return what a browser would send if the person changed nothing."""
    form = client.get(f"/policy/rules/{rule_id}/").context["form"]
    values = {field.name: field.value() for field in form}
    return {name: form.fields[name].prepare_value(value) for name, value in values.items() if value not in (None, "")}
