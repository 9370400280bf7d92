"""Inputs of hooks, and their answers by way of the relay."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE
from toolcards.hook_relay import relay

ARGS = {"command": "ls"}
CALL = {"session_id": "s-1", "tool_name": "bash", "tool_input": ARGS, "tool_use_id": "toolu_1"}


def options(gate: Gate | str, program: str = "claude-code", limit: float = PATIENCE) -> Namespace:
    url = gate if isinstance(gate, str) else gate.url
    return Namespace(program=program, url=url, key_env="NO_SUCH_KEY", key_file=None, limit=limit)


def hook(event: str, **more: Any) -> dict[str, Any]:
    call = dict(CALL)
    if event == "PermissionRequest":
        call.pop("tool_use_id")  # it names none
    return call | {"hook_event_name": event} | more


def send_hook(
    gate: Gate | str, event: str, program: str = "claude-code", *, limit: float = PATIENCE, **more: Any
) -> Any:
    result = hook(event, **more)
    return relay(options(gate, program, limit), json.dumps(result).encode(), result)


def lets_run(output: dict[str, Any]) -> bool:
    """Whether the program continues after it: all but a plain deny."""
    result = output.get("hookSpecificOutput", {})
    return result.get("permissionDecision") != "deny" and result.get("decision", {}).get("behavior") != "deny"
