"""The Agent Client Protocol: both directions of its stdio, as `toolcards acp` copies them.

Read from protocol version 1 and tested with recordings of opencode-ai 1.18.33. One frame is one message with its
direction: `{"dir": "<" from the agent or ">" from the editor, "msg": {JSON-RPC}}`. The sender adds what a message does
not contain: `kind` of the option that the editor selected, `method` of the request that is answered, and `cancelled`
while a canceled turn ends. A prompt is a turn of the run. The protocol has one status for denied, failed and stopped
calls; our own answer, a cancellation or an exit code distinguishes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from toolcards.adapters import strict
from toolcards.adapters.base import MAX_DEPTH, Adapter, ApprovalAnswer, BadFrame, Facts
from toolcards.adapters.native import find_number
from toolcards.client.common import tool_results as results
from toolcards.core.calls import facts as f
from toolcards.core.policy.places.project import is_folder
from toolcards.core.runs.run_context import SkippedFrame

Payload = dict[str, Any]
HOST = f.Actor("host", "editor")
ALLOWING_KINDS, REFUSING_KINDS = ("allow_once", "allow_always"), ("reject_once", "reject_always")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of an option's id: allow_once, allowOnce, ALLOW-ONCE
_YES, _YES_UNLESS_NO = ("allow", "approve", "accept", "proceed", "yes"), ("once", "always")
_NO = ("reject", "deny", "denied", "never", "cancel", "abort", "refuse", "decline", "disallow", "disapprove")
_NO_TOOL = re.compile(r"The arguments provided to the tool are invalid: Model tried to call unavailable tool '([^']*)'")
_ENDS: dict[str, f.Outcome] = {"cancelled": "aborted"}
_NOTHING: tuple[Any, ...] = (None, "", {}, [])


def decode(text: str, depth: int = MAX_DEPTH) -> Facts | SkippedFrame:
    """Return the message's facts; SkippedFrame for an unknown method or update."""
    frame = strict.loads(text, depth + 1)
    if not isinstance(frame, dict) or not isinstance(frame.get("msg"), dict):
        raise BadFrame("a frame is {dir, msg}", "not_object")
    if frame.get("dir") not in ("<", ">"):
        raise BadFrame("dir: must be < or >", "bad_field")
    msg, method = frame["msg"], _get_text(frame["msg"], "method")
    if not method:
        return _read_permission_response(frame, msg) if frame["dir"] == ">" else _read_response(frame, msg)
    msg["_cwd"] = frame.get("cwd")
    _mark_cancelled(frame, msg)
    if reader := METHODS.get((frame["dir"], method)):
        return reader(msg)
    return [] if method in QUIET or method.startswith(_QUIET_ROOMS) else SkippedFrame(method)


def find_run_id(text: str) -> str:
    """Return the session that a message names."""
    msg = strict.read_members(text).get("msg")
    return _get_text(_get_object(msg, "params"), "sessionId") or _get_text(_get_object(msg, "result"), "sessionId")


def encode(answer: ApprovalAnswer) -> Payload:
    """Return the response to a permission request; denies without a one-time option."""
    reply_to = answer.reply_to if isinstance(answer.reply_to, dict) else {}
    options = [each for each in reply_to.get("options") or () if isinstance(each, dict)]
    # Of several options of a kind the first one counts, as in the proxy.
    option_ids = {_get_text(each, "kind"): _get_text(each, "optionId") for each in reversed(options)}
    allowing = option_ids.get("allow_once") if answer.approved and answer.edited_input is None else ""
    option_id = allowing or option_ids.get("reject_once", "")
    outcome = {"outcome": "selected", "optionId": option_id} if option_id else {"outcome": "cancelled"}
    return {"id": reply_to.get("id"), "result": {"outcome": outcome}}


# ---------------------------------------------------------------- the editor's side


def _read_prompt(msg: Payload) -> Facts:
    """Read a prompt; the proxy adds the folder of its session."""
    return [f.RunStarted(root=str(msg["_cwd"]) if is_folder(msg["_cwd"]) else "")]


def _read_cancel(msg: Payload) -> Facts:
    """Read a cancellation of the turn, which ends open calls and approvals."""
    return [f.CallClosed("", "aborted", reason="The turn was canceled.")]


def _read_permission_response(frame: Payload, msg: Payload) -> Facts:
    """Read the editor's answer to a permission request; `cancelled` is not an answer."""
    outcome = _get_object(_get_object(msg, "result"), "outcome")
    if _get_text(outcome, "outcome") != "selected" or "id" not in msg:
        return []
    is_approved = _is_approval(_get_text(frame, "kind"), _get_text(outcome, "optionId"))
    return [] if is_approved is None else [f.ApprovalAnswered("", is_approved, str(msg["id"]), by=HOST)]


def _is_approval(kind: str, option: str) -> bool | None:
    """Decide by the option's kind, else by its name; None if both are unclear."""
    if kind in ALLOWING_KINDS or kind in REFUSING_KINDS:
        return kind in ALLOWING_KINDS
    words = [word.lower() for word in _WORD.findall(option)]
    refuses = "no" in words or any(word.startswith(_NO) for word in words)
    allows = any(word.startswith(_YES) for word in words)
    if refuses or allows:
        return None if refuses and allows else allows
    return True if any(word in _YES_UNLESS_NO for word in words) else None


# ---------------------------------------------------------------- the agent's side


def _read_response(frame: Payload, msg: Payload) -> Facts:
    """Read the response to a prompt, which ends the turn; other responses have no facts."""
    reason = _get_text(_get_object(msg, "result"), "stopReason")
    if reason:
        outcome, details = _ENDS.get(reason, "ok"), "" if reason == "end_turn" else reason
        return [f.RunEnded(outcome=outcome, reason=details, if_open="aborted", again=True)]
    if isinstance(msg.get("error"), dict) and frame.get("method") == "session/prompt":
        return [f.RunEnded(outcome="error", reason=_get_text(msg["error"], "message"), again=True)]
    return []


def _read_permission_request(msg: Payload) -> Facts:
    params = _get_object(msg, "params")
    call, options = _get_object(params, "toolCall"), params.get("options")
    if not _get_text(call, "toolCallId") or "id" not in msg or not isinstance(options, list):
        raise BadFrame("session/request_permission: id, toolCall.toolCallId, options: Field required", "missing_field")
    request = f.ApprovalRequested(
        _get_text(call, "toolCallId"), str(msg["id"]), reason=_get_text(call, "title"),
        reply_to={"id": msg["id"], "options": options}, terms={"local": True}, tool=find_tool_name(call),
        kind=_get_text(call, "kind"), input=results.describe_request(call),
    )  # fmt: skip
    return [*_read_input(call), request]


def _read_update(msg: Payload) -> Facts | SkippedFrame:
    update = _get_object(_get_object(msg, "params"), "update")
    kind = _get_text(update, "sessionUpdate")
    if reader := UPDATES.get(kind):
        return reader(update)
    return [] if kind in QUIET_UPDATES else SkippedFrame(f"session/update {kind}".rstrip())


def _mark_cancelled(frame: Payload, msg: Payload) -> None:
    """Mark failed calls of a cancelled turn as cancelled; version 1 has no status for it."""
    update = _get_object(_get_object(msg, "params"), "update")
    if frame.get("cancelled") is True and update.get("status") == "failed":
        update["status"] = "cancelled"


def _read_message(update: Payload) -> Facts:
    text = _get_text(_get_object(update, "content"), "text")
    channel: Any = "reasoning" if update["sessionUpdate"] == "agent_thought_chunk" else "text"
    return [f.TextDelta(text=text, channel=channel)] if text else []


def _read_tool_call(update: Payload) -> Facts:
    if not _get_text(update, "toolCallId"):
        raise BadFrame("tool_call: toolCallId: Field required", "missing_field")
    tool = find_tool_name(update)
    start_fact = f.InputStarted(
        update["toolCallId"], tool, title=_get_text(update, "title"), kind=_get_text(update, "kind")
    )
    facts = _read_tool_call_update(update)  # they name no tool, but an input of the announcement is of this one
    return [start_fact, *(f.revise(fact, tool=tool) if type(fact) is f.InputReady else fact for fact in facts)]


def find_tool_name(update: Payload) -> str:
    """Return the tool's name: `name`, else Claude's `_meta`, else the title."""
    claude_name = _get_text(_get_object(_get_object(update, "_meta"), "claudeCode"), "toolName")
    return _get_text(update, "name") or claude_name or _get_text(update, "title") or "tool"


def _read_tool_call_update(update: Payload) -> Facts:
    if not _get_text(update, "toolCallId"):
        raise BadFrame("tool_call_update: toolCallId: Field required", "missing_field")
    reader = STATUS.get(_get_text(update, "status"))
    report = update.get("sessionUpdate") == "tool_call_update"
    facts = reader(update) if reader is not None else _read_terminal(update)
    return [*_read_input(update, report=report, is_open=reader in (None, _read_progress)), *facts]


def _read_terminal(update: Payload) -> Facts:
    """Read what the terminal of a call wrote since the last update."""
    output = _get_text(_get_object(_get_object(update, "_meta"), "terminal_output"), "data")
    return [f.OutputPartial(update["toolCallId"], output, more=True)] if output else []


def _read_input(update: Payload, *, report: bool = False, is_open: bool = False) -> Facts:
    """Read the raw input, and the difference that an open call shows: later updates need not repeat them."""
    raw_input, description = update.get("rawInput"), results.describe_request(update)
    is_shown = is_open and bool(results.find_differences(update.get("content")))
    if description is None:
        blocks = _read_content(update) if is_shown else None
        return [f.InputReady(update["toolCallId"], "", raw_input, True, report=report, shown_blocks=blocks)]
    ready = f.InputReady(update["toolCallId"], "", description, True, report=report, described=True)
    return [ready] if is_shown else []


def _read_progress(update: Payload) -> Facts:
    output = _get_output(update)
    return _read_terminal(update) if output in (None, "") else [f.OutputPartial(update["toolCallId"], output)]


def _read_result(update: Payload) -> Facts:
    call, output = update["toolCallId"], _get_output(update)
    metadata = _get_object(_get_object(update, "rawOutput"), "metadata")
    unknown_tool = _NO_TOOL.match(output) if isinstance(output, str) else None
    if unknown_tool:
        return [f.InputInvalid(call, unknown_tool[1], None, str(output), "no_such_tool")]
    if "exit" in metadata and metadata["exit"] is None:  # the shell was killed: by a cancellation
        return [f.CallClosed(call, "aborted", reason=str(output or ""))]
    is_same = update.get("rawOutput") in _NOTHING and results.read_result(update.get("content")).output is None
    pieces = _read_terminal(update) if is_same else []
    return _read_exit_error(update) or [*pieces, f.OutputReady(call, output, unchanged=is_same)]


def _read_exit_error(update: Payload) -> Facts:
    """Read the exit code of a program that ran and failed."""
    raw, terminal = _get_object(update, "rawOutput"), _get_object(_get_object(update, "_meta"), "terminal_exit")
    places = (_get_object(raw, "metadata"), raw, terminal)
    code = next((code for each in places if (code := results.find_exit_code(each)) is not None), 0)
    if code == 0:
        return []
    text, media = _get_words(update) or f"exit code {code}", results.find_media(update.get("rawOutput"), update)
    return [f.OutputFailed(update["toolCallId"], text, "exit_status", output=media)]


def _read_failure(update: Payload) -> Facts:
    """Read a denied, failed or stopped call as a snapshot, which keeps better known outcomes."""
    call = update["toolCallId"]
    if _get_object(_get_object(update, "rawOutput"), "metadata").get("interrupted") is True:
        return [f.CallClosed(call, "aborted")]
    words, media = _get_words(update), results.find_media(update.get("rawOutput"), update)
    return _read_exit_error(update) or [f.SnapshotReceived(call, text=words, error=words, output=media)]


def _get_output(update: Payload) -> Any:
    raw = update.get("rawOutput")
    if isinstance(raw, dict) and "output" in raw:
        attachments = raw.get("attachments")
        return {"output": raw["output"], "attachments": attachments} if attachments else raw["output"]
    return raw if raw not in _NOTHING else _read_content(update) or raw


def _read_content(update: Payload) -> Any:
    """Return what the agent shows: its text, or its blocks if some are no text."""
    content = update.get("content")
    output = results.read_result(content).output
    return results.format_result(content) or None if output is content else output


def _get_words(update: Payload) -> str:
    """Return the text of a failure: of the raw output, else what the agent shows, else what its terminal wrote."""
    meta, raw = _get_object(update, "_meta"), update.get("rawOutput")
    words, end = _get_object(meta, "terminal_output").get("data"), meta.get("terminal_exit")
    parts = (_get_object(update, "rawOutput").get("error"), raw, update.get("content"), words, end)
    return next((text for part in parts if (text := results.format_result(part))), "")


METHODS: dict[tuple[str, str], Callable[[Payload], Facts | SkippedFrame]] = {
    (">", "session/prompt"): _read_prompt,
    (">", "session/cancel"): _read_cancel,
    ("<", "session/request_permission"): _read_permission_request,
    ("<", "session/update"): _read_update,
}
UPDATES: dict[str, Callable[[Payload], Facts]] = {
    "agent_message_chunk": _read_message,
    "agent_thought_chunk": _read_message,
    "tool_call": _read_tool_call,
    "tool_call_update": _read_tool_call_update,
}
STATUS: dict[str, Callable[[Payload], Facts]] = {
    "in_progress": _read_progress,
    "completed": _read_result,
    "failed": _read_failure,
    "cancelled": lambda update: [f.CallClosed(update["toolCallId"], "aborted")],  # version 2
}
QUIET = frozenset(
    {
        "initialize", "authenticate", "logout", "session/new", "session/load", "session/list", "session/resume",
        "session/fork", "session/close", "session/delete", "session/set_mode", "session/set_model",
        "session/set_config_option",
    }
)  # fmt: skip
_QUIET_ROOMS = ("fs/", "terminal/", "elicitation/", "providers/", "nes/", "_", "$/")
QUIET_UPDATES = frozenset(
    {
        "user_message_chunk", "plan", "available_commands_update", "current_mode_update", "config_option_update",
        "session_info_update", "usage_update",
    }
)  # fmt: skip


def _get_object(container: Any, name: str) -> Payload:
    value = container.get(name) if isinstance(container, dict) else None
    return value if isinstance(value, dict) else {}


def _get_text(container: Any, name: str) -> str:
    value = container.get(name) if isinstance(container, dict) else None
    return value if isinstance(value, str) else ""


ADAPTER = Adapter("acp", "1", decode, encode, find_run_id=find_run_id, find_number=find_number, body_is_stream=False)
