"""opencode's event bus: the stream of `GET /event`, and the input of its plugin hook `event`.

Read from and tested with opencode-ai 1.18.33. One frame is one event `{type, properties}`. A session without parent is
the run itself, its sub-sessions are lanes. Arguments do not stream, shell output does. A failure is recognized by the
state of a tool part, by an `exit` other than 0, and by fixed texts of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcards.adapters import strict
from toolcards.adapters.base import MAX_DEPTH, Adapter, ApprovalAnswer, BadFrame, Facts
from toolcards.client.common.tool_results import format_result
from toolcards.core.calls import facts as f
from toolcards.core.policy.places.project import is_folder
from toolcards.core.runs.run_context import SkippedFrame

Payload = dict[str, Any]
HOST = f.Actor("host", "opencode")
STOP_PREFIX = "Stopped by Toolcards: "  # how our plugin's refusals begin; see static/clients/opencode.js
_DENIED = ("The user rejected permission", "The user has specified a rule which prevents", STOP_PREFIX)
_INVALID = "tool was called with invalid arguments"
_NO_TOOL = "unavailable tool"


def decode(text: str, depth: int = MAX_DEPTH) -> Facts | SkippedFrame:
    """Return the facts of one bus event; SkippedFrame for an unknown type."""
    event = strict.loads(text, depth)
    if not isinstance(event, dict):
        raise BadFrame("an event must be one JSON object", "not_object")
    kind, properties = _get_text(event, "type"), event.get("properties")
    if not kind:
        raise BadFrame("type: Field required", "missing_field")
    reader = EVENTS.get(kind)
    if reader is None:
        return [] if kind in QUIET or kind.startswith(_QUIET_ROOMS) else SkippedFrame(kind)
    if not isinstance(properties, dict):
        raise BadFrame(f"{kind}: properties: Field required", "missing_field")
    return reader(properties)


def find_run_id(text: str) -> str:
    """Return the session that the event is about."""
    return _get_text(_get_object(strict.read_members(text), "properties"), "sessionID")


def encode(answer: ApprovalAnswer) -> Payload:
    """Return the body for the permission's reply endpoint.

    With a reason, a denied run continues.
    """
    if answer.approved:
        return {"reply": "once"}
    return {"reply": "reject", "message": answer.reason or "A person declined."}


# ---------------------------------------------------------------- sessions


def _read_session_created(properties: Payload) -> Facts:
    info = _get_object(properties, "info")
    session, parent = _get_text(info, "id"), _get_text(info, "parentID")
    if parent:
        return [f.LaneStarted(lane=session, name=_get_text(info, "agent") or "agent", parent_lane=parent)]
    directory = _get_text(info, "directory")
    root = directory if is_folder(directory) else ""
    return [f.RunStarted(scope=session, title=_get_text(info, "title")[:200], root=root)]


def _read_session_idle(properties: Payload) -> Facts:
    """Read an idle session: the run ended, unless an error already ended it."""
    session = _get_text(properties, "sessionID")
    lane_end = f.RunEnded(outcome="not-executed", lane=session, again=True)
    return [lane_end, f.RunEnded(outcome="ok", scope=session, if_open="aborted", again=True)] if session else []


def _read_session_error(properties: Payload) -> Facts:
    session, error = _get_text(properties, "sessionID"), _get_object(properties, "error")
    name = _get_text(error, "name")
    is_aborted = name == "MessageAbortedError"
    outcome: f.Outcome = "aborted" if is_aborted else "error"
    reason = "Aborted in opencode." if is_aborted else _get_text(_get_object(error, "data"), "message") or name
    if not session:
        return [f.ErrorReported(message=reason)]
    return [
        f.RunEnded(outcome=outcome, reason=reason, lane=session),
        f.RunEnded(outcome=outcome, reason=reason, scope=session),
    ]


def _read_text_delta(properties: Payload) -> Facts:
    text = _get_text(properties, "delta")
    is_text = properties.get("field") == "text" and bool(text)
    return [f.TextDelta(text=text, lane=_get_text(properties, "sessionID"))] if is_text else []


# ---------------------------------------------------------------- permissions


def _read_permission_request(properties: Payload) -> Facts:
    """Read a permission request of the program; v2 names the call in `source`."""
    source = _get_object(properties, "tool") or _get_object(properties, "source")
    action = _get_text(properties, "permission") or _get_text(properties, "action")
    patterns = properties.get("patterns") or properties.get("resources") or []
    patterns = patterns if isinstance(patterns, list) else []
    targets = ", ".join(pattern for pattern in patterns if isinstance(pattern, str))
    approval_id = _get_text(properties, "id")
    return [
        f.ApprovalRequested(
            _get_text(source, "callID"), approval_id, reason=f"opencode asks: {action} {targets}".strip(),
            reply_to={"id": approval_id, "session": _get_text(properties, "sessionID")}, terms={"local": True},
        )
    ]  # fmt: skip


def _read_permission_reply(properties: Payload) -> Facts:
    approval_id = _get_text(properties, "requestID") or _get_text(properties, "permissionID")
    reply = _get_text(properties, "reply") or _get_text(properties, "response")
    return [f.ApprovalAnswered("", reply in ("once", "always"), approval_id, by=HOST)] if approval_id and reply else []


# ---------------------------------------------------------------- tools


def _read_part(properties: Payload) -> Facts:
    part = _get_object(properties, "part")
    if part.get("type") != "tool":
        return []
    state = _get_object(part, "state")
    status = STATUS.get(_get_text(state, "status"))
    if status is None:
        raise BadFrame("message.part.updated: part.state.status: not known", "bad_field")
    if not _get_text(part, "callID") or not _get_text(part, "tool"):
        raise BadFrame("message.part.updated: part.callID, part.tool: Field required", "missing_field")
    return status(part, state)


def _read_pending(part: Payload, state: Payload) -> Facts:
    return [f.InputStarted(part["callID"], part["tool"], lane=_get_text(part, "sessionID"))]


def _read_running(part: Payload, state: Payload) -> Facts:
    facts: Facts = [_build_input_ready(part, state)]
    metadata = _get_object(state, "metadata")
    if _get_text(metadata, "sessionId"):  # the session of the sub-agent that this call started
        name = _get_text(_get_object(state, "input"), "subagent_type") or "agent"
        lane = f.LaneStarted(
            lane=metadata["sessionId"], name=name, parent_lane=_get_text(part, "sessionID"), parent_call=part["callID"]
        )
        facts.append(lane)
    if _get_text(metadata, "output"):
        facts.append(f.OutputPartial(part["callID"], metadata["output"]))
    return facts


def _read_completed(part: Payload, state: Payload) -> Facts:
    call, metadata, output = part["callID"], _get_object(state, "metadata"), state.get("output")
    if part["tool"] == "invalid":
        return [_build_invalid_input(call, _get_object(state, "input"))]
    exit_code = metadata.get("exit", 0)
    ready = replace(_build_input_ready(part, state), report=True)
    if exit_code is None:  # the shell was killed: by an abort
        return [ready, f.CallClosed(call, "aborted", reason=_get_text(state, "output"))]
    if isinstance(exit_code, int) and exit_code != 0:
        return [f.OutputFailed(call, _get_text(state, "output") or f"exit code {exit_code}", "exit_status"), ready]
    attachments = state.get("attachments")
    if isinstance(attachments, list) and attachments:
        output = {"output": output, "attachments": attachments}
    return [f.OutputReady(call, output), ready]


def _build_invalid_input(call: str, tool_input: Payload) -> f.InputInvalid:
    """Build the fact of an invalid call: the program runs its tool `invalid` instead."""
    message = _get_text(tool_input, "error")
    return f.InputInvalid(
        call, _get_text(tool_input, "tool"), None, message, "no_such_tool" if _NO_TOOL in message else "invalid_input"
    )


def _read_error(part: Payload, state: Payload) -> Facts:
    call, message = part["callID"], format_result(state.get("error"))
    ready = replace(_build_input_ready(part, state), report=True)
    if _get_object(state, "metadata").get("interrupted") is True:
        return [f.CallClosed(call, "aborted", reason=message)]
    if message.startswith(_DENIED):
        return [f.OutputDenied(call, message.removeprefix(STOP_PREFIX), HOST), ready]
    if _INVALID in message[:200]:
        return [f.InputInvalid(call, part["tool"], state.get("input"), message)]
    return [f.OutputFailed(call, message), ready]


STATUS: dict[str, Callable[[Payload, Payload], Facts]] = {
    "pending": _read_pending, "running": _read_running, "completed": _read_completed, "error": _read_error,
}  # fmt: skip
EVENTS: dict[str, Callable[[Payload], Facts]] = {
    "session.created": _read_session_created,
    "session.idle": _read_session_idle,
    "session.error": _read_session_error,
    "message.part.updated": _read_part,
    "message.part.delta": _read_text_delta,
    "permission.asked": _read_permission_request,
    "permission.v2.asked": _read_permission_request,
    "permission.replied": _read_permission_reply,
    "permission.v2.replied": _read_permission_reply,
}
# Known events without data about calls. They are listed by name if events with the same prefix concern calls;
# `session.next.tool.*` and `session.next.shell.*` count as unknown, because calls that only they report are
# missed.
QUIET = frozenset(
    {
        "session.updated", "session.deleted", "session.status", "session.diff", "session.compacted",
        "message.updated", "message.removed", "message.part.removed", "command.executed", "mcp.tools.changed",
        "mcp.browser.open.failed", "file.edited", "file.watcher.updated",
        *(
            f"session.next.{name}"
            for name in (
                "agent.switched", "compaction.started", "compaction.delta", "compaction.ended", "context.updated",
                "model.switched", "moved", "prompt.admitted", "prompted", "reasoning.started", "reasoning.delta",
                "reasoning.ended", "retried", "revert.staged", "revert.cleared", "revert.committed", "step.started",
                "step.ended", "step.failed", "synthetic", "text.started", "text.delta", "text.ended",
            )
        ),
    }
)  # fmt: skip
_QUIET_ROOMS = (
    "server.", "plugin.", "catalog.", "integration.", "reference.", "lsp.", "todo.", "installation.", "ide.",
    "project.", "vcs.", "tui.", "pty.", "question.", "workspace.", "worktree.", "storage.", "global.", "models-dev.",
)  # fmt: skip


def _build_input_ready(part: Payload, state: Payload) -> f.InputReady:
    tool_input = state.get("input")
    return f.InputReady(
        part["callID"], part["tool"], tool_input, tool_input is not None, lane=_get_text(part, "sessionID")
    )


def _get_object(container: Any, name: str) -> Payload:
    value = container.get(name) if isinstance(container, dict) else None
    return value if isinstance(value, dict) else {}


def _get_text(container: Any, name: str) -> str:
    value = container.get(name) if isinstance(container, dict) else None
    return value if isinstance(value, str) else ""


ADAPTER = Adapter("opencode", "1.18.33", decode, encode, find_run_id=find_run_id, body_is_stream=False)
