"""Claude Code's hooks: what it posts to an HTTP hook, or writes to a command hook's standard input.

Read from and tested with @anthropic-ai/claude-code 2.1.329. One frame is one hook input; the run is its
`session_id`. Unknown tools, invalid input and denials are told by PostToolBatch alone, a question of the
program's own by PermissionRequest, which names no call: the board finds it by tool and input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolcards.adapters import strict
from toolcards.adapters.base import DEPTH, Adapter, ApprovalAnswer, BadFrame, Facts
from toolcards.core.calls import facts as f
from toolcards.core.runs.skipped_frames import Skipped

ASKS = "Claude Code asks for permission; it can be answered here or where it runs."
REFUSED = "Claude Code did not run it."
INTERRUPTED = "Interrupted at Claude Code."
_TOOL_ERROR = "<tool_use_error>"
_CODES = {"Error: No such tool": "no_such_tool", "InputValidationError": "invalid_input"}
Said = dict[str, Any]


def decode(text: str, depth: int = DEPTH) -> Facts | Skipped:
    """Return the facts of one hook input; Skipped for an event that is not known here."""
    said = strict.loads(text, depth)
    if not isinstance(said, dict):
        raise BadFrame("a hook input is one JSON object", "not_object")
    event = _text(said, "hook_event_name")
    if not event:
        raise BadFrame("hook_event_name: Field required", "missing_field")
    if event in _QUIET:
        return []
    known = _EVENTS.get(event)
    return known(said) if known else Skipped(event)


def run_of(text: str) -> str:
    """Return the session."""
    try:
        said = strict.loads(text)
    except BadFrame:
        return ""
    return _text(said, "session_id") if isinstance(said, dict) else ""


def encode(answer: ApprovalAnswer) -> Said:
    """Return the answer to a PermissionRequest."""
    decision: Said = {"behavior": "allow" if answer.approved else "deny"}
    if answer.approved and answer.edited_input is not None:
        decision["updatedInput"] = answer.edited_input
    if not answer.approved:
        decision["message"] = answer.reason or "A person declined."
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


# ---------------------------------------------------------------- one function per event


def _session_started(said: Said) -> Facts:
    return [f.RunStarted()]


def _prompted(said: Said) -> Facts:
    """What a person typed. A call that still runs by then was interrupted; nothing else tells."""
    prompt = _text(said, "prompt")
    if prompt.startswith("<task-notification>"):  # the program tells itself that a sub-agent is done
        return []
    return [f.CallClosed("", "aborted", reason=INTERRUPTED), f.RunStarted(title=prompt[:200])]


def _before(said: Said) -> Facts:
    return [_input(said)]


def _asks(said: Said) -> Facts:
    return [
        f.ApprovalRequested(
            _text(said, "tool_use_id"), reason=ASKS, reply_to={"event": "PermissionRequest"}, terms={"local": True},
            tool=_needed(said, "tool_name"), input=said.get("tool_input"),
        )
    ]  # fmt: skip


def _after(said: Said) -> Facts:
    """The result; name and input only fill in what no PreToolUse told."""
    ready = _input(said)
    facts: Facts = [f.OutputReady(ready.call_id, said.get("tool_response")), ready]
    response = said.get("tool_response")
    started = _text(response, "agentId") if isinstance(response, dict) else ""
    if started:
        name = _text(said.get("tool_input") or {}, "subagent_type") or "agent"
        facts.append(f.LaneStarted(lane=started, name=name, parent_lane=ready.lane, parent_call=ready.call_id))
    return facts


def _failed(said: Said) -> Facts:
    ready, error = _input(said), _text(said, "error")
    if said.get("is_interrupt") is True:
        return [ready, f.CallClosed(ready.call_id, "aborted", reason=error or INTERRUPTED)]
    return [f.OutputFailed(ready.call_id, error), ready]


def _denied(said: Said) -> Facts:
    call_id = _text(said, "tool_use_id")
    if not call_id:
        return []
    return [f.OutputDenied(call_id, _text(said, "reason") or REFUSED, f.Actor("host", "Claude Code")), _input(said)]


def _batch(said: Said) -> Facts:
    """All calls of a turn with what the model was told: what is still open never ran."""
    facts: Facts = []
    calls = said.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict) or not _text(call, "tool_use_id"):
            continue
        told = call.get("tool_response")
        if isinstance(told, str) and told.startswith(_TOOL_ERROR):
            facts.append(_unusable(call, told))
        else:
            facts.append(f.SnapshotReceived(call["tool_use_id"], text=told, denied=True))
    return facts


def _unusable(call: Said, told: str) -> f.InputInvalid:
    message = told.removeprefix(_TOOL_ERROR).removesuffix("</tool_use_error>")
    code = next((code for start, code in _CODES.items() if message.startswith(start)), "invalid_input")
    return f.InputInvalid(call["tool_use_id"], _text(call, "tool_name"), call.get("tool_input"), message, code)


def _lane_started(said: Said) -> Facts:
    lane = _needed(said, "agent_id")
    return [f.LaneStarted(lane=lane, name=_text(said, "agent_type") or "agent")]


def _lane_ended(said: Said) -> Facts:
    lane = _needed(said, "agent_id")
    return [*_last_words(said, lane), f.RunEnded(outcome="not-executed", lane=lane)]


def _stopped(said: Said) -> Facts:
    return [*_last_words(said, ""), f.StepFinished()]


def _ended(said: Said) -> Facts:
    """The session is over; what was still open was interrupted (SIGINT and Esc tell nothing else)."""
    return [f.RunEnded(outcome="ok", if_open="aborted", reason=_text(said, "reason"))]


_EVENTS: dict[str, Callable[[Said], Facts]] = {
    "SessionStart": _session_started,
    "UserPromptSubmit": _prompted,
    "PreToolUse": _before,
    "PermissionRequest": _asks,
    "PostToolUse": _after,
    "PostToolUseFailure": _failed,
    "PermissionDenied": _denied,
    "PostToolBatch": _batch,
    "SubagentStart": _lane_started,
    "SubagentStop": _lane_ended,
    "Stop": _stopped,
    "SessionEnd": _ended,
}
_QUIET = frozenset(
    {
        "Notification", "UserPromptExpansion", "StopFailure", "PreCompact", "PostCompact", "TaskCreated",
        "TaskCompleted", "TeammateIdle", "ConfigChange", "CwdChanged", "FileChanged", "InstructionsLoaded", "Setup",
        "WorktreeCreate", "WorktreeRemove", "Elicitation", "ElicitationResult", "DirectoryAdded", "MessageDisplay",
        "PreModelSwitch", "PostModelSwitch",
    }
)  # fmt: skip


def _input(said: Said) -> f.InputReady:
    tool = _needed(said, "tool_name")
    server = tool.split("__")[1] if tool.startswith("mcp__") and tool.count("__") > 1 else ""
    return f.InputReady(
        _needed(said, "tool_use_id"), tool, said.get("tool_input"), "tool_input" in said, source=server,
        lane=_text(said, "agent_id"),
    )  # fmt: skip


def _last_words(said: Said, lane: str) -> Facts:
    words = _text(said, "last_assistant_message")
    return [f.TextDelta(text=words, lane=lane)] if words else []


def _text(said: Any, name: str) -> str:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, str) else ""


def _needed(said: Said, name: str) -> str:
    value = _text(said, name)
    if not value:
        raise BadFrame(f"{said.get('hook_event_name')}: {name}: Field required", "missing_field")
    return value


ADAPTER = Adapter("claude-code", "2.1.329", decode, encode, run_of=run_of, body_is_stream=False)
