"""Outcomes over AG-UI: which of its producers' conventions say that a call failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.adapters import BadFrame, ag_ui
from toolcards.core.calls import facts as f


def decode_result(**fields: Any) -> Any:
    frame = {"type": "TOOL_CALL_RESULT", "toolCallId": "c", "messageId": "m", "content": "text", **fields}
    return ag_ui.decode(json.dumps(frame))


ERROR_JSON = '{"error":"boom"}'
RESULTS = [
    ("a text", {}, f.OutputReady("c", "text", "m")), ("no message", {"messageId": ""}, f.OutputReady("c", "text")),
    ("JSON", {"content": '{"a":[1]}'}, f.OutputReady("c", {"a": [1]}, "m")),
    ("an array", {"content": "[1]"}, f.OutputReady("c", [1], "m")),
    ("a number stays a text", {"content": "12"}, f.OutputReady("c", "12", "m")),
    ("JSON that names a key twice stays a text", {"content": '{"a":1,"a":2}'},
     f.OutputReady("c", '{"a":1,"a":2}', "m")),
    ("parts", {"content": [{"type": "text", "text": "x"}]}, f.OutputReady("c", [{"type": "text", "text": "x"}], "m")),
    ("a wrapped error alone is a result", {"content": ERROR_JSON}, f.OutputReady("c", {"error": "boom"}, "m")),
    ("an error", {"error": "boom"}, f.OutputFailed("c", "boom")),
    ("an empty error has the message of the content", {"error": ""}, f.OutputFailed("c", "text")),
    ("an error that is no text", {"error": {"a": 1}}, f.OutputFailed("c", '{"a": 1}')),
    ("an error counts before all other marks", {"error": "boom", "mcpResult": {"isError": True}},
     f.OutputFailed("c", "boom")),
    ("MCP", {"mcpResult": {"isError": True}, "content": ERROR_JSON}, f.OutputFailed("c", "boom", "tool_reported")),
    ("MCP in the metadata", {"metadata": {"mcpResult": {"isError": True}}},
     f.OutputFailed("c", "text", "tool_reported")),
    ("MCP, no error", {"mcpResult": {"isError": False}}, f.OutputReady("c", "text", "m")),
    ("MCP, nearly an error", {"mcpResult": {"isError": 1}}, f.OutputReady("c", "text", "m")),
    ("MCP, no object", {"mcpResult": ["isError"]}, f.OutputReady("c", "text", "m")),
    ("TanStack", {"metadata": {"tanstack": {"state": "output-error"}}, "content": ERROR_JSON},
     f.OutputFailed("c", "boom")),
    ("TanStack, another state", {"metadata": {"tanstack": {"state": "output-available"}}},
     f.OutputReady("c", "text", "m")),
    ("an empty failure", {"state": "output-error", "content": '{"error":""}'}, f.OutputFailed("c", "")),
    ("a state of its own", {"state": "output-error"}, f.OutputFailed("c", "text")),
    ("a state that is no text", {"state": ["output-error"]}, f.OutputReady("c", "text", "m")),
    ("a failure in parts", {"state": "output-error", "content": [{"text": "a"}, {"image": 1}, 5, {"text": "b"}]},
     f.OutputFailed("c", "a\nb")),
    ("a failure whose error is no text", {"state": "output-error", "content": '{"error":{"a":1}}'},
     f.OutputFailed("c", '{"error": {"a": 1}}')),
]  # fmt: skip


@loop_over(("fields", "fact"), [pytest.param(*rest, id=name) for name, *rest in RESULTS])
def test_a_result_is_a_failure_if_one_of_its_marks_says_so(fields: dict[str, Any], fact: Any) -> None:
    assert decode_result(**fields) == [fact]


@loop_over("fields", [{"toolCallId": ""}, {"content": None}, {"content": {"a": 1}}, {"messageId": 5}])
def test_a_result_that_cannot_be_read_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadFrame):
        decode_result(**fields)


# ---------------------------------------------------------------- Pydantic AI's later mark
def decode_mark(value: Any, subtype: str = "message") -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    frame = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": subtype, "entityId": "m", "encryptedValue": text}
    return ag_ui.decode(json.dumps(frame))


def make_mark(outcome: Any, **more: Any) -> dict[str, Any]:
    return {"pydantic_ai": {"outcome": outcome, **more}}


@loop_over("outcome", ["failed", "retried", "denied", "interrupted"])
def test_a_mark_is_about_the_message_of_the_result(outcome: Any) -> None:
    assert decode_mark(make_mark(outcome)) == [f.OutcomeReported("", outcome, "m")]
    assert decode_mark(make_mark(outcome), "reasoning") == []


CAUSES = [
    ({"cause": "unknown_tool"}, "no_such_tool"), ({"cause": "validation_error"}, "invalid_input"),
    ({"cause": "of the future"}, ""), ({"cause": ["unknown_tool"]}, ""), ("unknown_tool", ""), (None, ""),
]  # fmt: skip


@loop_over(("retry", "code"), CAUSES)
def test_the_cause_of_a_retry_is_an_error_code(retry: Any, code: str) -> None:
    assert decode_mark(make_mark("retried", retry=retry)) == [f.OutcomeReported("", "retried", "m", code)]


@loop_over(
    "value",
    [
        "b64:AAAA", "{", "[]", {}, {"pydantic_ai": []}, {"pydantic_ai": "failed"}, make_mark("success"),
        make_mark(None), make_mark(["failed"]), {"other": {"outcome": "failed"}},
    ],
)  # fmt: skip
def test_an_encrypted_value_of_something_else_tells_nothing(value: Any) -> None:
    assert decode_mark(value) == []


# ---------------------------------------------------------------- LangGraph's snapshot
def test_a_snapshot_shows_the_results_of_its_tool_messages() -> None:
    messages = [
        {"role": "tool", "toolCallId": "a", "content": "fine"},
        {"role": "assistant", "toolCallId": "b", "content": "x"},
        {"role": "tool", "toolCallId": 5, "content": "x"}, {"role": "tool", "content": "x"},
        {"role": "tool", "toolCallId": "c", "content": ["x"], "error": "boom"},
        {"role": "tool", "toolCallId": "d", "error": ""}, {"role": "tool", "toolCallId": "e", "error": {"a": 1}},
    ]  # fmt: skip
    assert ag_ui.decode(json.dumps({"type": "MESSAGES_SNAPSHOT", "messages": messages})) == [
        f.SnapshotReceived("a", "fine"), f.SnapshotReceived("c", ["x"], "boom"), f.SnapshotReceived("d", None, ""),
        f.SnapshotReceived("e"),
    ]  # fmt: skip


@loop_over("messages", [None, {}, ["x"], [None]])
def test_a_snapshot_without_messages_is_refused(messages: Any) -> None:
    with pytest.raises(BadFrame):
        ag_ui.decode(json.dumps({"type": "MESSAGES_SNAPSHOT", "messages": messages}))
