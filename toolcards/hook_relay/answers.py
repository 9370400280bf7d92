"""What counts as an answer to a gating hook: one that names exactly these bytes, this call and what may run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from toolcards.client.common.canonical_json import call_digest, digest

JsonObject = dict[str, Any]


LONGEST_NOTE = 8_000  # characters
NOTE_EVENTS = frozenset(
    {"UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"}
)  # events with notes for the model


class UnusableAnswer(Exception):
    """The answer does not match this hook input."""


def _check_pre_tool_use(answer: JsonObject, hook: JsonObject, data: bytes) -> JsonObject:
    """Check a PreToolUse answer: a deny, an allow, or `{}` (the program's own rules decide)."""
    output = _get_hook_output(answer, "PreToolUse")
    decision = output.get("permissionDecision")
    if decision == "deny":
        return _deny(_format_reason(output.get("permissionDecisionReason")))
    if output and decision != "allow":
        raise UnusableAnswer("it is not a decision")
    allowed_input = _check_binding(answer, hook, data, output)
    if not output:
        return {}
    reason = _format_reason(output.get("permissionDecisionReason"))
    changed_input = {"updatedInput": allowed_input} if "updatedInput" in output else {}
    result = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": result | changed_input}


def _check_permission(answer: JsonObject, hook: JsonObject, data: bytes) -> JsonObject:
    """Check a PermissionRequest answer: a decision, or `{}` (the program asks its own user)."""
    output = _get_hook_output(answer, "PermissionRequest")
    if not output:
        return {}
    decision = output.get("decision")
    behavior = decision.get("behavior") if isinstance(decision, dict) else None
    if not isinstance(decision, dict) or behavior not in {"allow", "deny"}:
        raise UnusableAnswer("it is not a decision")
    if behavior == "deny":
        return deny_permission(_format_reason(decision.get("message")))
    allowed_input = _check_binding(answer, hook, data, decision)
    result = {"behavior": "allow", "updatedInput": allowed_input}
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": result}}


def _check_binding(answer: JsonObject, hook: JsonObject, data: bytes, decision: JsonObject) -> Any:
    """Return the input that may run; raises UnusableAnswer unless the answer is for these bytes and this call."""
    binding = answer.get("toolcards")
    allowed_input = decision.get("updatedInput", hook.get("tool_input"))
    if not isinstance(allowed_input, dict) or not isinstance(binding, dict):
        raise UnusableAnswer("it does not identify what it answers")
    name: Any = hook.get("tool_name")
    source = _check_tool(binding, hook)
    expected_binding = {
        "answers": hashlib.sha256(data).hexdigest(), "run": hook.get("session_id"),
        "args_sha256": digest(allowed_input),
        "call_sha256": call_digest(allowed_input, name=name, source=source),
    }  # fmt: skip
    if "tool_use_id" in hook:
        expected_binding["call_id"] = hook["tool_use_id"]
    if type(binding.get("attempt")) is not int or binding["attempt"] < 1:
        raise UnusableAnswer("it names no attempt")
    for name, value in expected_binding.items():
        if not isinstance(value, str) or binding.get(name) != value:
            raise UnusableAnswer(f"its {name} does not match this call")
    return allowed_input


def read_note(answer: JsonObject, hook: JsonObject, data: bytes) -> JsonObject:
    """Return the note for the model, {} without one.

    Only an answer to exactly these bytes can have one. A note allows nothing: a call that it announces is judged again.
    """
    event, binding = hook["hook_event_name"], answer.get("toolcards")
    if not isinstance(binding, dict) or binding.get("answers") != hashlib.sha256(data).hexdigest():
        return {}
    if event == "Stop" and answer.get("decision") == "block" and isinstance(answer.get("reason"), str):
        return {"decision": "block", "reason": answer["reason"][:LONGEST_NOTE]}
    text = _get_hook_output(answer, event).get("additionalContext")
    if not isinstance(text, str):
        return {}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text[:LONGEST_NOTE]}}


def is_waiting(answer: JsonObject, data: bytes) -> bool:
    """Return whether the answer denies because no one has answered yet."""
    binding = answer.get("toolcards")
    return (
        isinstance(binding, dict)
        and binding.get("waiting") is True
        and binding.get("answers") == hashlib.sha256(data).hexdigest()
    )


def _check_tool(binding: JsonObject, hook: JsonObject) -> str:
    """Return the MCP server of the evaluated tool; raises UnusableAnswer unless it is the tool of this call."""
    tool = binding.get("tool")
    if not isinstance(tool, dict) or not isinstance(tool.get("source"), str) or not isinstance(tool.get("name"), str):
        raise UnusableAnswer("it names no tool")
    if tool["name"] != hook.get("tool_name"):
        raise UnusableAnswer("it is for a different tool")
    return str(tool["source"])


def _get_hook_output(answer: JsonObject, event: str) -> JsonObject:
    """Return the answer's output for this event, {} without one."""
    if not set(answer) <= {"hookSpecificOutput", "toolcards"}:
        raise UnusableAnswer("it has unknown fields")
    output = answer.get("hookSpecificOutput", {})
    if not isinstance(output, dict) or (output and output.get("hookEventName") != event):
        raise UnusableAnswer("it is for a different event")
    return output


def _format_reason(text: Any) -> str:
    return text[:8000] if isinstance(text, str) and text else "The gate did not allow this call."


def _deny(why: str) -> JsonObject:
    result = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    return {"hookSpecificOutput": result}


def deny_permission(why: str) -> JsonObject:
    """Return the output that denies a PermissionRequest."""
    decision = {"behavior": "deny", "message": why}
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


CHECKS: dict[str, Callable[[JsonObject, JsonObject, bytes], JsonObject]] = {
    "PreToolUse": _check_pre_tool_use, "PermissionRequest": _check_permission,
}  # fmt: skip
DENIALS = {"PreToolUse": _deny, "PermissionRequest": deny_permission}
