"""What counts as a frame of an unknown kind, protocol by protocol, and what is known and teaches nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.adapters import ADAPTERS
from toolcards.core.runs.run_context import SkippedFrame


def update(kind: str, **more: Any) -> dict[str, Any]:
    params = {"sessionId": "s", "update": {"sessionUpdate": kind, **more}}
    return {"dir": "<", "msg": {"method": "session/update", "params": params}}


def method(name: str, way: str = "<") -> dict[str, Any]:
    return {"dir": way, "msg": {"id": 1, "method": name, "params": {}}}


UNKNOWN = [
    ("native", {"type": "tool.called", "call_id": "c"}, "tool.called"),
    ("native", {"type": ""}, ""),
    ("ai-sdk", {"type": "tool-call", "toolCallId": "c"}, "tool-call"),
    ("ai-sdk", {"type": "chunk", "requestId": "r", "sequence": 1, "chunk": {"type": "tool-call"}}, "tool-call"),
    ("ag-ui", {"type": "TOOL_CALL_BEGUN"}, "TOOL_CALL_BEGUN"),
    ("tanstack", {"id": "1", "chunk": {"type": "TOOL_CALL_BEGUN"}}, "TOOL_CALL_BEGUN"),
    ("claude-code", {"hook_event_name": "PreToolUse2", "session_id": "s"}, "PreToolUse2"),
    ("opencode", {"type": "session.next.tool.called", "properties": {}}, "session.next.tool.called"),
    ("opencode", {"type": "session.next.shell.started", "properties": {}}, "session.next.shell.started"),
    ("opencode", {"type": "message.part.v2.updated", "properties": {}}, "message.part.v2.updated"),
    ("acp", update("tool_call_v2"), "session/update tool_call_v2"),
    ("acp", update(""), "session/update"),
    ("acp", method("session/request_approval"), "session/request_approval"),
    ("acp", method("tools/call"), "tools/call"),
]
QUIET = [
    ("ai-sdk", {"type": "data-weather", "data": 1}),
    ("ag-ui", {"type": "CUSTOM", "name": "anything", "value": 1}),
    *(
        ("claude-code", {"hook_event_name": name, "session_id": "s"})
        for name in ("PreModelSwitch", "PostModelSwitch", "DirectoryAdded", "MessageDisplay", "Notification")
    ),
    *(
        ("opencode", {"type": name, "properties": {}})
        for name in ("session.status", "session.next.text.delta", "message.updated", "todo.updated", "file.edited")
    ),
    *(("acp", update(name)) for name in ("plan", "current_mode_update", "usage_update", "user_message_chunk")),
    *(("acp", method(name, ">")) for name in ("initialize", "session/new", "session/set_mode", "terminal/create")),
    ("acp", method("_vendor/anything")),
]


@pytest.mark.parametrize(("protocol", "frame", "kind"), UNKNOWN)
def test_a_frame_of_an_unknown_kind_names_it(protocol: str, frame: dict[str, Any], kind: str) -> None:
    assert ADAPTERS[protocol].decode(json.dumps(frame)) == SkippedFrame(kind)


@loop_over(("protocol", "frame"), QUIET)
def test_a_known_frame_without_facts_is_not_unknown(protocol: str, frame: dict[str, Any]) -> None:
    assert ADAPTERS[protocol].decode(json.dumps(frame)) == []
