"""One frame of every kind of every protocol, from the models and tables of its adapter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from toolcards.adapters import acp, ai_sdk, claude_code, native_frames, opencode
from toolcards.adapters.ag_ui import events

Frame = dict[str, Any]
CALL = "c"  # every frame that names a call names this one
VALUES = {
    "root": "/srv/shop",
    "toolCallId": CALL,
    "call_id": CALL,
    "parentToolCallId": CALL,
    "sequence": 1,
    "n": 1,
    "chunk": {"type": "abort"},
}
SESSION = {"session_id": "s", "tool_name": "Bash", "tool_use_id": CALL, "tool_input": {"command": "ls"}}
HOOK_PARTS = {
    "tool_response": {"agentId": "sub", "content": "x"}, "error": "x", "prompt": "hello", "agent_id": "sub",
    "agent_type": "reviewer", "last_assistant_message": "done", "reason": "other", "source": "startup",
    "tool_calls": [{**SESSION, "tool_response": "x"}, {**SESSION, "tool_use_id": "d", "tool_response": None}],
}  # fmt: skip


def list_frames() -> Iterator[tuple[str, Frame]]:
    """Yield (protocol, frame): the shortest and the longest of each kind."""
    for protocol, union in (("native", native_frames.Frames), ("ai-sdk", ai_sdk.Chunks), ("ag-ui", events.Events)):
        for frame in _list_by_schema(TypeAdapter(union).json_schema()):
            yield protocol, frame
            if protocol == "ag-ui":
                yield "tanstack", {"id": "1", "chunk": frame}
    for event in [*claude_code.EVENTS, *sorted(claude_code.QUIET)]:
        yield "claude-code", {"hook_event_name": event, **SESSION}
        yield "claude-code", {"hook_event_name": event, **SESSION, **HOOK_PARTS}
    yield from (("opencode", frame) for frame in _list_of_opencode())
    yield from (("acp", frame) for frame in _list_of_acp())


def _list_by_schema(schema: Frame) -> Iterator[Frame]:
    definitions = schema["$defs"]
    for reference in schema["oneOf"]:
        model = definitions[reference["$ref"].rsplit("/", 1)[1]]
        kind = model["properties"]["type"]
        for name in kind.get("enum", [kind.get("const")]):
            for names in (model.get("required", ()), model["properties"]):
                yield {each: _build(each, model["properties"][each], definitions) for each in names} | {"type": name}


def _build(name: str, schema: Frame, definitions: Frame) -> Any:
    """Return a value of the schema, the richest one where there are several."""
    if name in VALUES:
        return VALUES[name]
    if "$ref" in schema:
        model = definitions[schema["$ref"].rsplit("/", 1)[1]]
        return {each: _build(each, part, definitions) for each, part in model.get("properties", {}).items()}
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return _build(name, options[0], definitions)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if schema.get("type") == "array":
        return [_build("", schema["items"], definitions)] if schema.get("items") else [{"role": "tool"}]
    return {
        "string": "x",
        "boolean": True,
        "integer": 1,
        "number": 1.5,
        "object": {"role": "tool", "toolCallId": CALL},
    }.get(schema.get("type", ""), {"q": 1})


def _list_of_opencode() -> Iterator[Frame]:
    info = {"id": "s", "title": "hello"}
    properties = {
        "sessionID": "s", "info": info, "error": {"name": "Failed", "data": {"message": "x"}}, "delta": "x",
        "field": "text", "id": "p", "requestID": "p", "reply": "once", "permission": "bash", "patterns": ["ls"],
        "tool": {"callID": CALL},
    }  # fmt: skip
    for event in [*opencode.EVENTS, *sorted(opencode.QUIET)]:
        if event != "message.part.updated":
            yield {"type": event, "properties": properties}
    yield {"type": "session.created", "properties": {"info": {**info, "id": "sub", "parentID": "s", "agent": "plan"}}}
    for status in opencode.STATUS:
        state = {"status": status, "input": {"command": "ls"}, "output": "x", "error": "x", "metadata": {"output": "x"}}
        part = {"type": "tool", "callID": CALL, "tool": "bash", "sessionID": "s", "state": state}
        yield {"type": "message.part.updated", "properties": {"part": part}}


def _list_of_acp() -> Iterator[Frame]:
    call = {
        "toolCallId": CALL,
        "title": "List",
        "kind": "execute",
        "rawInput": {"command": "ls"},
        "rawOutput": {"output": "x"},
    }
    for way, method in acp.METHODS:
        params = {"sessionId": "s", "toolCall": call, "options": [{"optionId": "o", "kind": "allow_once"}]}
        if method != "session/update":
            yield {"dir": way, "msg": {"id": 1, "method": method, "params": params}}
    for update in [*acp.UPDATES, *sorted(acp.QUIET_UPDATES)]:
        for status in ("", *acp.STATUS):
            content = {"type": "text", "text": "x"}
            values = {"sessionUpdate": update, "content": content, **call, "status": status}
            if update.startswith("tool_call"):
                values["content"] = [{"type": "content", "content": content}]
            yield {"dir": "<", "msg": {"method": "session/update", "params": {"sessionId": "s", "update": values}}}
    for method in sorted(acp.QUIET):
        yield {"dir": ">", "msg": {"id": 2, "method": method, "params": {}}}
    outcome = {"outcome": {"outcome": "selected", "optionId": "o"}}
    yield {"dir": ">", "kind": "allow_once", "msg": {"id": 1, "result": outcome}}
    yield {"dir": "<", "method": "session/prompt", "msg": {"id": 3, "error": {"message": "x"}}}
    for reason in ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"):
        yield {"dir": "<", "msg": {"id": 3, "result": {"stopReason": reason}}}


START = {
    "native": {"type": "tool.input.started", "call_id": CALL, "tool": "Bash"},
    "ai-sdk": {"type": "tool-input-start", "toolCallId": CALL, "toolName": "Bash"},
    "ag-ui": {"type": "TOOL_CALL_START", "toolCallId": CALL, "toolCallName": "Bash"},
    "tanstack": {"type": "TOOL_CALL_START", "toolCallId": CALL, "toolCallName": "Bash"},
    "claude-code": {"hook_event_name": "PreToolUse", **SESSION},
    "opencode": {
        "type": "message.part.updated",
        "properties": {"part": {"type": "tool", "callID": CALL, "tool": "bash", "state": {"status": "pending"}}},
    },
    "acp": {
        "dir": "<",
        "msg": {
            "method": "session/update",
            "params": {"update": {"sessionUpdate": "tool_call", "toolCallId": CALL, "title": "List"}},
        },
    },
}
