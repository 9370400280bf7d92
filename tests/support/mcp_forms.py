"""Forms of an MCP server: as requests, and as parts of a response that asks for more input."""

from __future__ import annotations

from typing import Any

from toolcards.mcp.elicitation import CAPABILITIES

FORM = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}
FILLED_IN = FORM | {"answers": {"x": "a"}}  # how a person edits it
ACCEPTED = {"action": "accept", "content": {"x": "a"}}


def make_form(number: Any, **params: Any) -> dict[str, Any]:
    """Return a form as a request of the server (until protocol 2025-11-25)."""
    return {"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": FORM | params}


def make_input_request(number: Any, *names: str, state: str = "s1", **params: Any) -> dict[str, Any]:
    """Return a response with forms (from protocol 2026-07-28 on)."""
    forms = {name: {"method": "elicitation/create", "params": FORM | params} for name in names or ("f",)}
    result = {"resultType": "input_required", "inputRequests": forms, "requestState": state}
    return {"jsonrpc": "2.0", "id": number, "result": result}


def make_call(number: Any, tool: str = "read", **meta: Any) -> dict[str, Any]:
    """Return a call of a client that cannot show forms."""
    params = {"name": tool, "arguments": {"a": 1}, "_meta": {CAPABILITIES: {}, **meta}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def make_result(number: Any, text: str = "done") -> dict[str, Any]:
    """Return the result of a call."""
    return {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": text}]}}
