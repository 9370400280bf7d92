"""Shared parts of the translations: run events, calls that hooks do not identify, and their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolcards.hook_relay import open_calls
from toolcards.hook_relay.answers import JsonObject

CHANGED = "A person changed the arguments, which this request cannot carry: call again with {}"


@dataclass(frozen=True, slots=True)
class HookProgram:
    """One program: its name as an agent, and how its hooks are translated.

    `translate` takes the hook input and the event of the command line, and returns the input in Claude Code's form, or
    None if there is nothing to send. `format` takes the output in Claude Code's form and the input that it answers.
    """

    title: str
    translate: Callable[[JsonObject, str], JsonObject | None]
    format: Callable[[JsonObject, JsonObject], JsonObject]
    warn: Callable[[str], JsonObject] = lambda text: {"systemMessage": text}


def translate_call(hook: JsonObject, session: str, tool: Any, arguments: Any, **more: Any) -> JsonObject:
    """Return the PreToolUse of a call, with a new id."""
    if not isinstance(arguments, dict):
        raise ValueError("the arguments of the tool are not an object")
    call = {"session_id": session, "tool_name": tool, "tool_input": arguments, "tool_use_id": open_calls.make_id()}
    return {"hook_event_name": "PreToolUse", "cwd": hook.get("cwd"), **call, **more}


def translate_result(
    session: str, tool: str, arguments: Any, *, output: Any = None, error: str | None = None, **more: Any
) -> JsonObject | None:
    """Return the PostToolUse or PostToolUseFailure of a call.

    A success without an open call ran although no hook allowed it: it is reported under a new id. A failure without one
    was denied, and is known.
    """
    call_id = open_calls.close_call(session, tool, arguments)
    if call_id is None and error is not None:
        return None
    call = {"session_id": session, "tool_name": tool, "tool_input": arguments, **more}
    call["tool_use_id"] = call_id or open_calls.make_id()
    if error is not None:
        return {"hook_event_name": "PostToolUseFailure", **call, "error": error}
    return {"hook_event_name": "PostToolUse", **call, "tool_response": output}


def translate_run_event(event: str, hook: JsonObject, session: str, **more: Any) -> JsonObject:
    """Return an event of the run.

    The end of the session forgets its open calls.
    """
    if event == "SessionEnd":
        open_calls.forget_session(session)
    return {"hook_event_name": event, "session_id": session, "cwd": hook.get("cwd"), **more}


def keep_open(output: JsonObject, hook: JsonObject) -> tuple[str, str, JsonObject | None]:
    """Return decision, reason and changed arguments of a PreToolUse.

    Keep the call open unless it is denied.
    """
    specific = output.get("hookSpecificOutput", {})
    decision, changed = specific.get("permissionDecision", ""), specific.get("updatedInput")
    if decision != "deny":
        arguments = hook["tool_input"] if changed is None else changed
        open_calls.open_call(hook["session_id"], hook["tool_name"], arguments, hook["tool_use_id"])
    return decision, specific.get("permissionDecisionReason", ""), changed
