"""Claude Code's hook inputs, from an HTTP hook or a command hook's standard input.

Read from and tested with @anthropic-ai/claude-code 2.1.329. One frame is one hook input; the run is its
`session_id`. Only PostToolBatch reports unknown tools, invalid input and denials. A permission request of the
program itself (PermissionRequest) names no call: the router finds it by tool and input.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcards.adapters import strict
from toolcards.adapters.base import MAX_DEPTH, Adapter, ApprovalAnswer, BadFrame, Facts
from toolcards.client.common.tool_kinds import parse_server
from toolcards.client.common.tool_results import format_result
from toolcards.core.calls import facts as f
from toolcards.core.calls.questions import TOOLS as QUESTION_TOOLS
from toolcards.core.policy.places.project import is_folder
from toolcards.core.runs.run_context import SkippedFrame

ASKS = "Claude Code asks for permission. Answer here or in Claude Code."
NOT_RUN = "Claude Code did not run this call."
INTERRUPTED = "Interrupted in Claude Code."
_TOOL_ERROR = "<tool_use_error>"
_CODES = {"Error: No such tool": "no_such_tool", "InputValidationError": "invalid_input"}
Payload = dict[str, Any]


def decode(text: str, depth: int = MAX_DEPTH) -> Facts | SkippedFrame:
    """Return the facts of one hook input; SkippedFrame for an unknown event."""
    hook_input = strict.loads(text, depth)
    if not isinstance(hook_input, dict):
        raise BadFrame("a hook input must be one JSON object", "not_object")
    event = _get_text(hook_input, "hook_event_name")
    if not event:
        raise BadFrame("hook_event_name: Field required", "missing_field")
    if event in QUIET:
        return []
    reader = EVENTS.get(event)
    return [*_read_lane(hook_input), *reader(hook_input)] if reader else SkippedFrame(event)


def find_run_id(text: str) -> str:
    """Return the session id."""
    return _get_text(strict.read_members(text), "session_id")


def encode(answer: ApprovalAnswer) -> Payload:
    """Return the answer to a PermissionRequest.

    Some tools (ExitPlanMode) stay blocked after an allow that does not repeat their input.
    """
    decision: Payload = {"behavior": "allow" if answer.approved else "deny"}
    allowed_input = answer.input if answer.edited_input is None else answer.edited_input
    if answer.approved and isinstance(allowed_input, dict):
        decision["updatedInput"] = allowed_input
    if not answer.approved:
        decision["message"] = answer.reason or "A person declined."
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


# ---------------------------------------------------------------- one function per event


def _read_prompt(hook_input: Payload) -> Facts:
    """Read a prompt; calls that still run were interrupted, which no other event reports."""
    prompt = _get_text(hook_input, "prompt")
    if prompt.startswith("<task-notification>"):  # the program reports the end of a sub-agent to itself
        return []
    return [f.CallClosed("", "aborted", reason=INTERRUPTED), f.RunStarted(title=prompt[:200])]


def _read_tool_start(hook_input: Payload) -> Facts:
    return [replace(_read_input(hook_input), asks=True)]


def _read_permission_request(hook_input: Payload) -> Facts:
    return [
        f.ApprovalRequested(
            _get_text(hook_input, "tool_use_id"), reason=_get_text(hook_input, "description") or ASKS,
            reply_to={"event": "PermissionRequest"}, terms={"local": True}, source_id=find_question_id(hook_input),
            tool=_require_text(hook_input, "tool_name"), input=hook_input.get("tool_input"),
        )
    ]  # fmt: skip


def find_question_id(hook_input: Payload) -> str:
    """Return the id of a request with its own reason, or ""."""
    reason = _get_text(hook_input, "description")
    if not reason:
        return ""
    text = json.dumps([hook_input.get("tool_name"), hook_input.get("tool_input"), reason], sort_keys=True)
    return f"question_{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _read_result(hook_input: Payload) -> Facts:
    """Read the result; name and input fill in what PreToolUse did not report.

    The input of a question then holds its answers, wherever they were given: it is no other call.
    """
    ready = _read_input(hook_input)
    if ready.tool in QUESTION_TOOLS:
        ready = replace(ready, input=None, has_input=False)
    facts: Facts = [f.OutputReady(ready.call_id, hook_input.get("tool_response")), replace(ready, report=True)]
    response = hook_input.get("tool_response")
    if isinstance(response, dict) and response.get("interrupted") is True:
        facts = [f.OutputPartial(ready.call_id, response), replace(ready, report=True)]
        return [*facts, f.CallClosed(ready.call_id, "aborted", reason=INTERRUPTED)]
    agent_id = _get_text(response, "agentId") if isinstance(response, dict) else ""
    if agent_id:
        name = _get_text(hook_input.get("tool_input") or {}, "subagent_type") or "agent"
        facts.append(f.LaneStarted(lane=agent_id, name=name, parent_lane=ready.lane, parent_call=ready.call_id))
    return facts


def _read_failure(hook_input: Payload) -> Facts:
    ready, error = _read_input(hook_input), format_result(hook_input.get("error"))
    if hook_input.get("is_interrupt") is True:
        return [ready, f.CallClosed(ready.call_id, "aborted", reason=error or INTERRUPTED)]
    return [f.OutputFailed(ready.call_id, error), replace(ready, report=True)]


def _read_denial(hook_input: Payload) -> Facts:
    call_id = _get_text(hook_input, "tool_use_id")
    if not call_id:
        return []
    return [
        f.OutputDenied(call_id, _get_text(hook_input, "reason") or NOT_RUN, f.Actor("host", "Claude Code")),
        replace(_read_input(hook_input), report=True),
    ]


def _read_batch(hook_input: Payload) -> Facts:
    """Read all calls of a turn with their results; calls that are still open never ran."""
    facts: Facts = []
    calls = hook_input.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict) or not _get_text(call, "tool_use_id"):
            continue
        response = call.get("tool_response")
        if isinstance(response, str) and response.startswith(_TOOL_ERROR):
            facts.append(_build_invalid_input(call, response))
        else:
            facts.append(f.SnapshotReceived(call["tool_use_id"], text=response, denied=True))
    return facts


def _build_invalid_input(call: Payload, response: str) -> f.InputInvalid:
    message = response.removeprefix(_TOOL_ERROR).removesuffix("</tool_use_error>")
    code = next((code for start, code in _CODES.items() if message.startswith(start)), "invalid_input")
    return f.InputInvalid(call["tool_use_id"], _get_text(call, "tool_name"), call.get("tool_input"), message, code)


def _read_lane(hook_input: Payload) -> Facts:
    """Return the sub-agent that a hook names: SubagentStart may be missing."""
    lane, name = _get_text(hook_input, "agent_id"), _get_text(hook_input, "agent_type")
    is_start = _get_text(hook_input, "hook_event_name") == "SubagentStart"
    return [f.LaneStarted(lane=lane, name=name)] if lane and name and not is_start else []


def _read_subagent_start(hook_input: Payload) -> Facts:
    lane = _require_text(hook_input, "agent_id")
    return [f.LaneStarted(lane=lane, name=_get_text(hook_input, "agent_type") or "agent")]


def _read_subagent_stop(hook_input: Payload) -> Facts:
    lane = _require_text(hook_input, "agent_id")
    return [*_read_last_message(hook_input, lane), f.RunEnded(outcome="unreported", lane=lane)]


def _read_stop(hook_input: Payload) -> Facts:
    """Read the end of a turn: of calls that are still open no hook reported the result."""
    return [*_read_last_message(hook_input, ""), f.CallClosed("", "unreported"), f.StepFinished()]


def _read_session_end(hook_input: Payload) -> Facts:
    """Read the end of the session; open calls were interrupted (SIGINT and Esc send nothing else)."""
    return [f.RunEnded(outcome="ok", if_open="aborted", reason=_get_text(hook_input, "reason"))]


EVENTS: dict[str, Callable[[Payload], Facts]] = {
    "UserPromptSubmit": _read_prompt,
    "PreToolUse": _read_tool_start,
    "PermissionRequest": _read_permission_request,
    "PostToolUse": _read_result,
    "PostToolUseFailure": _read_failure,
    "PermissionDenied": _read_denial,
    "PostToolBatch": _read_batch,
    "SubagentStart": _read_subagent_start,
    "SubagentStop": _read_subagent_stop,
    "Stop": _read_stop,
    "SessionEnd": _read_session_end,
}
QUIET = frozenset(
    {
        "Notification", "UserPromptExpansion", "StopFailure", "PreCompact", "PostCompact", "TaskCreated",
        "TaskCompleted", "TeammateIdle", "ConfigChange", "CwdChanged", "FileChanged", "InstructionsLoaded", "Setup",
        "WorktreeCreate", "WorktreeRemove", "Elicitation", "ElicitationResult", "DirectoryAdded", "MessageDisplay",
        "PreModelSwitch", "PostModelSwitch", "SessionStart",
    }
)  # fmt: skip


def _read_input(hook_input: Payload) -> f.InputReady:
    tool = _require_text(hook_input, "tool_name")
    server = _get_text(hook_input.get("mcp_server"), "name") or parse_server(tool)
    return f.InputReady(
        _require_text(hook_input, "tool_use_id"), tool, hook_input.get("tool_input"), "tool_input" in hook_input,
        source=server, lane=_get_text(hook_input, "agent_id"), folder=find_folder(hook_input),
    )  # fmt: skip


def find_folder(hook_input: Payload) -> str:
    """Return the working folder, "" if the hook names none."""
    folder = _get_text(hook_input, "cwd")
    return folder if is_folder(folder) else ""


def _read_last_message(hook_input: Payload, lane: str) -> Facts:
    words = _get_text(hook_input, "last_assistant_message")
    return [f.TextDelta(text=words, lane=lane)] if words else []


def _get_text(hook_input: Any, name: str) -> str:
    value = hook_input.get(name) if isinstance(hook_input, dict) else None
    return value if isinstance(value, str) else ""


def _require_text(hook_input: Payload, name: str) -> str:
    value = _get_text(hook_input, name)
    if not value:
        raise BadFrame(f"{hook_input.get('hook_event_name')}: {name}: Field required", "missing_field")
    return value


ADAPTER = Adapter("claude-code", "2.1.329", decode, encode, find_run_id=find_run_id, body_is_stream=False)
