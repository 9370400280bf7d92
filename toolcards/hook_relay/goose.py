"""Goose's hooks, translated to and from Claude Code's form.

Read from and tested with goose 1.52.0. Its call ids come from the model, which may reuse them, so each call gets an id
of ours. Its session names count the sessions of a day on one computer, so a mark of the computer is added.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

from toolcards.hook_relay.answers import JsonObject
from toolcards.hook_relay.translation import (
    CHANGED,
    HookProgram,
    keep_open,
    translate_call,
    translate_result,
    translate_run_event,
)

FAILED = "Goose reports that the tool failed; its hooks do not say why."
RAN = "Goose reports that the tool ran; its hooks do not have the result."
_RUN_EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")


def _translate(hook: JsonObject, _event: str) -> JsonObject | None:
    event, session = hook.get("event"), _find_session(hook)
    tool, arguments = str(hook.get("tool_name", "")), hook.get("tool_input")
    arguments = {} if arguments is None else arguments  # a tool without parameters
    hook = hook | {"cwd": hook.get("working_dir")}
    if event == "PreToolUse":
        return translate_call(hook, session, tool, arguments)
    if event == "PostToolUse":
        return translate_result(session, tool, arguments, output=hook.get("tool_output", RAN))
    if event == "PostToolUseFailure":
        return translate_result(session, tool, arguments, error=_read_failure(hook))
    if event in _RUN_EVENTS:
        return translate_run_event(str(event), hook, session, **_read_text(hook))
    raise ValueError(f"unknown event: {event!r}")


def _find_session(hook: JsonObject) -> str:
    """Return the session's name with a mark of this computer and home.

    Every computer has a session `20261124_1`.
    """
    place = hashlib.sha256(f"{platform.node()}:{Path.home()}".encode()).hexdigest()[:8]
    return f"{hook.get('session_id', '')}-{place}"


def _read_failure(hook: JsonObject) -> str:
    output = hook.get("tool_output")
    if output is None:
        return FAILED
    return output if isinstance(output, str) else json.dumps(output)


def _read_text(hook: JsonObject) -> dict[str, Any]:
    """Return the prompt or the last answer, if the event has one."""
    texts = {"prompt": hook.get("message"), "last_assistant_message": hook.get("last_assistant_message")}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _format(output: JsonObject, hook: JsonObject) -> JsonObject:
    """Return the decision.

    With any other answer, Goose runs the tool or shows no reason.
    """
    if hook["hook_event_name"] != "PreToolUse":
        return {}
    changed_input = output.get("hookSpecificOutput", {}).get("updatedInput")
    if changed_input is not None:
        return {"decision": "block", "reason": CHANGED.format(json.dumps(changed_input))}
    decision, reason, _ = keep_open(output, hook)
    return {"decision": "block", "reason": reason} if decision == "deny" else {"decision": "allow"}


GOOSE = HookProgram("Goose", "goose", _translate, _format, lambda text: {})
