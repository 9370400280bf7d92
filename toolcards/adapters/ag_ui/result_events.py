"""Events that report the outcome of a call.

AG-UI 1.0 has no event for a failed call. `ToolCallResultEvent` reads the conventions of its producers, the most
reliable first. Pydantic AI reports the outcome one frame later (`EncryptedValueEvent`), LangGraph in a snapshot
(`MessagesSnapshotEvent`).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from toolcards.adapters import strict
from toolcards.adapters.ag_ui.base_event import AgUiEvent, to_text
from toolcards.adapters.ag_ui.resume_entries import get_member, list_passed_over
from toolcards.adapters.base import Facts
from toolcards.client.common.tool_results import format_result
from toolcards.core.calls import facts as f

_MARKS: dict[str, Literal["failed", "retried", "denied", "interrupted"]] = {
    "failed": "failed", "retried": "retried", "denied": "denied", "interrupted": "interrupted",
}  # fmt: skip
_CAUSES = {"unknown_tool": "no_such_tool", "validation_error": "invalid_input"}


class ToolCallResultEvent(AgUiEvent):
    """The result of a call; a failure is marked in one of four ways, or in a later event."""

    type: Literal["TOOL_CALL_RESULT"]
    message_id: str = ""
    tool_call_id: str = Field(min_length=1)
    content: str | list[Any]
    error: Any = None
    state: Any = None
    mcp_result: Any = None

    def to_facts(self) -> Facts:
        if isinstance(self.error, str):
            return [f.OutputFailed(self.tool_call_id, self.error or _get_message(self.content))]
        if self.error:
            return [f.OutputFailed(self.tool_call_id, format_result(self.error) or _get_message(self.content))]
        mcp_result = self.mcp_result or (self.metadata or {}).get("mcpResult")
        has_failed = isinstance(mcp_result, dict) and mcp_result.get("isError") is True
        if has_failed or "output-error" in {to_text(self.tanstack.get("state")), to_text(self.state)}:
            code = "tool_reported" if has_failed else ""
            return [f.OutputFailed(self.tool_call_id, _get_message(self.content), code)]
        output = strict.parse_or_keep(self.content) if isinstance(self.content, str) else self.content
        return [f.OutputReady(self.tool_call_id, output, self.message_id)]


class EncryptedValueEvent(AgUiEvent):
    """The outcome of a result as Pydantic AI reports it; the value is plain JSON."""

    type: Literal["REASONING_ENCRYPTED_VALUE"]
    subtype: str
    entity_id: str
    encrypted_value: str

    def to_facts(self) -> Facts:
        payload = strict.parse_or_keep(self.encrypted_value)
        marks = payload.get("pydantic_ai") if isinstance(payload, dict) else None
        outcome = marks.get("outcome") if isinstance(marks, dict) else None
        mark = _MARKS.get(to_text(outcome))
        if self.subtype != "message" or mark is None or not isinstance(marks, dict):
            return []
        retry = marks.get("retry")
        cause = to_text(retry.get("cause")) if isinstance(retry, dict) else ""
        return [f.OutcomeReported("", mark, self.entity_id, _CAUSES.get(cause, ""))]


class MessagesSnapshotEvent(AgUiEvent):
    """All messages so far, with calls and results that no event reported (LangGraph)."""

    type: Literal["MESSAGES_SNAPSHOT"]
    messages: list[dict[str, Any]]

    def to_facts(self) -> Facts:
        return [*_read_calls(self.messages), *_read_results(self.messages), *list_passed_over(self.messages)]


def _read_calls(messages: list[dict[str, Any]]) -> Facts:
    facts: Facts = []
    for message in messages:
        calls = get_member(message, "toolCalls") if message.get("role") == "assistant" else None
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and to_text(call.get("id")) and to_text(function.get("name")):
                tool_input = function.get("arguments")
                tool_input = strict.parse_or_keep(tool_input) if isinstance(tool_input, str) else tool_input
                facts.append(f.InputReady(call["id"], function["name"], tool_input, True, past=True))
    return facts


def _read_results(messages: list[dict[str, Any]]) -> Facts:
    return [
        f.SnapshotReceived(call_id, message.get("content"), _get_text(message.get("error")))
        for message in messages
        if message.get("role") == "tool" and isinstance(call_id := get_member(message, "toolCallId"), str)
    ]


def _get_message(content: str | list[Any]) -> str:
    """Return the message of a failure; TanStack and others wrap it as `{"error": …}`."""
    payload = strict.parse_or_keep(content) if isinstance(content, str) else content
    is_wrapped = isinstance(payload, list) or (isinstance(payload, dict) and "error" in payload)
    return format_result(payload) if is_wrapped else str(content)


def _get_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
