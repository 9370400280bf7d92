"""The Agent Client Protocol, as both sides of its stdio speak it: what `toolcards acp` mirrors.

Read from protocol version 1 and tested with recordings of opencode-ai 1.18.33. One frame is one message with its
direction, `{"dir": "<" from the agent or ">" from the editor, "msg": {JSON-RPC}}`; where the sender knows more than
the message says, `kind` of the option that the editor chose, `method` of the request that is answered, `cancelled`
while a cancelled turn ends. A prompt is a turn of the run. The protocol has one status
for refused, failed and stopped calls: our own answer, a cancellation and an exit code tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from toolcards.adapters import strict
from toolcards.adapters.base import DEPTH, Adapter, ApprovalAnswer, BadFrame, Facts
from toolcards.adapters.native import number_of
from toolcards.core.calls import facts as f
from toolcards.core.runs.skipped_frames import Skipped

Said = dict[str, Any]
HOST = f.Actor("host", "editor")
ALLOWING, REFUSING = ("allow_once", "allow_always"), ("reject_once", "reject_always")
_YES = re.compile(r"(allow|once|always|yes|approve|proceed)", re.IGNORECASE)
_NO = re.compile(r"(reject|deny|no|never|cancel|abort|refuse)", re.IGNORECASE)
_NO_TOOL = re.compile(r"The arguments provided to the tool are invalid: Model tried to call unavailable tool '([^']*)'")
_ENDS: dict[str, f.Outcome] = {"cancelled": "aborted"}


def decode(text: str, depth: int = DEPTH) -> Facts | Skipped:
    """Return the facts of one message; Skipped for a method or an update that is not known here."""
    frame = strict.loads(text, depth + 1)
    if not isinstance(frame, dict) or not isinstance(frame.get("msg"), dict):
        raise BadFrame("a frame is {dir, msg}", "not_object")
    if frame.get("dir") not in ("<", ">"):
        raise BadFrame("dir: must be < or >", "bad_field")
    msg, method = frame["msg"], _text(frame["msg"], "method")
    if not method:
        return _answered(frame, msg) if frame["dir"] == ">" else _result(frame, msg)
    if frame.get("cancelled") is True:
        _stopped(msg)
    known = _METHODS.get((frame["dir"], method))
    if known is not None:
        return known(msg)
    return [] if method in _QUIET or method.startswith(_QUIET_ROOMS) else Skipped(method)


def run_of(text: str) -> str:
    """Return the session that a message names."""
    try:
        msg = strict.loads(text).get("msg")
    except (BadFrame, AttributeError):
        return ""
    return _text(_object(msg, "params"), "sessionId") or _text(_object(msg, "result"), "sessionId")


def encode(answer: ApprovalAnswer) -> Said:
    """Return the result of the permission request. A yes is for this time only; without such an option it is a no."""
    kept = answer.reply_to if isinstance(answer.reply_to, dict) else {}
    options = [each for each in kept.get("options") or () if isinstance(each, dict)]
    offered = {_text(each, "kind"): _text(each, "optionId") for each in options}
    wanted = offered.get("allow_once") if answer.approved and answer.edited_input is None else ""
    chosen = wanted or offered.get("reject_once", "")
    outcome = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
    return {"id": kept.get("id"), "result": {"outcome": outcome}}


# ---------------------------------------------------------------- the editor's side


def _prompt(msg: Said) -> Facts:
    return [f.RunStarted()]


def _cancel(msg: Said) -> Facts:
    """The person stops the turn: what is open ends with it, questions too."""
    return [f.CallClosed("", "aborted", reason="The turn was cancelled.")]


def _answered(frame: Said, msg: Said) -> Facts:
    """The editor's answer to a permission request. `cancelled` is no answer: the turn was stopped before one."""
    outcome = _object(_object(msg, "result"), "outcome")
    if _text(outcome, "outcome") != "selected" or "id" not in msg:
        return []
    approved = _approves(_text(frame, "kind"), _text(outcome, "optionId"))
    return [] if approved is None else [f.ApprovalAnswered("", approved, str(msg["id"]), by=HOST)]


def _approves(kind: str, option: str) -> bool | None:
    """By the kind of the option where it is told, else by its name; None where neither says."""
    if kind in ALLOWING or kind in REFUSING:
        return kind in ALLOWING
    return False if _NO.match(option) else True if _YES.match(option) else None


# ---------------------------------------------------------------- the agent's side


def _result(frame: Said, msg: Said) -> Facts:
    """The answer to a prompt ends the turn; other answers teach nothing."""
    reason = _text(_object(msg, "result"), "stopReason")
    if reason:
        outcome, why = _ENDS.get(reason, "ok"), "" if reason == "end_turn" else reason
        return [f.RunEnded(outcome=outcome, reason=why, if_open="aborted", again=True)]
    if isinstance(msg.get("error"), dict) and frame.get("method") == "session/prompt":
        return [f.RunEnded(outcome="error", reason=_text(msg["error"], "message"), again=True)]
    return []


def _asked(msg: Said) -> Facts:
    told = _object(msg, "params")
    call, options = _object(told, "toolCall"), told.get("options")
    if not _text(call, "toolCallId") or "id" not in msg or not isinstance(options, list):
        raise BadFrame("session/request_permission: id, toolCall.toolCallId, options: Field required", "missing_field")
    asked = f.ApprovalRequested(
        _text(call, "toolCallId"), str(msg["id"]), reason=_text(call, "title"),
        reply_to={"id": msg["id"], "options": options}, terms={"local": True},
    )  # fmt: skip
    return [*_input(call), asked]


def _update(msg: Said) -> Facts | Skipped:
    told = _object(_object(msg, "params"), "update")
    kind = _text(told, "sessionUpdate")
    known = _UPDATES.get(kind)
    if known is not None:
        return known(told)
    return [] if kind in _QUIET_UPDATES else Skipped(f"session/update {kind}".rstrip())


def _stopped(msg: Said) -> None:
    """In a cancelled turn no call fails by itself: version 1 has no other word for it, version 2 has."""
    told = _object(_object(msg, "params"), "update")
    if told.get("status") == "failed":
        told["status"] = "cancelled"


def _message(told: Said) -> Facts:
    text = _text(_object(told, "content"), "text")
    channel: Any = "reasoning" if told["sessionUpdate"] == "agent_thought_chunk" else "text"
    return [f.TextDelta(text=text, channel=channel)] if text else []


def _call(told: Said) -> Facts:
    if not _text(told, "toolCallId"):
        raise BadFrame("tool_call: toolCallId: Field required", "missing_field")
    begun = f.InputStarted(told["toolCallId"], tool_of(told), title=_text(told, "title"), kind=_text(told, "kind"))
    return [begun, *_changed(told)]


def tool_of(told: Said) -> str:
    """Return the tool's name: as it is told, as Claude's agent tells it aside, else the first title."""
    aside = _text(_object(_object(told, "_meta"), "claudeCode"), "toolName")
    return _text(told, "name") or aside or _text(told, "title") or "tool"


def _changed(told: Said) -> Facts:
    if not _text(told, "toolCallId"):
        raise BadFrame("tool_call_update: toolCallId: Field required", "missing_field")
    ends = _STATUS.get(_text(told, "status"))
    report = told.get("sessionUpdate") == "tool_call_update"
    return [*_input(told, report=report), *(ends(told) if ends is not None else ())]


def _input(told: Said, *, report: bool = False) -> Facts:
    given = told.get("rawInput")
    return [f.InputReady(told["toolCallId"], "", given, True, report=report)] if given not in (None, {}) else []


def _running(told: Said) -> Facts:
    output = _output(told)
    return [] if output in (None, "") else [f.OutputPartial(told["toolCallId"], output)]


def _completed(told: Said) -> Facts:
    call, output = told["toolCallId"], _output(told)
    about = _object(_object(told, "rawOutput"), "metadata")
    unknown = _NO_TOOL.match(output) if isinstance(output, str) else None
    if unknown:
        return [f.InputInvalid(call, unknown[1], None, str(output), "no_such_tool")]
    if "exit" in about and about["exit"] is None:  # the shell was killed: by a cancellation
        return [f.CallClosed(call, "aborted", reason=str(output or ""))]
    return _exited(told) or [f.OutputReady(call, output)]


def _exited(told: Said) -> Facts:
    """A program that ended with an error, so it did run."""
    code = _object(_object(told, "rawOutput"), "metadata").get("exit")
    if type(code) is not int or code == 0:
        return []
    return [f.OutputFailed(told["toolCallId"], str(_output(told) or f"exit code {code}"), "exit_status")]


def _failed(told: Said) -> Facts:
    """Refused, failed or stopped: a snapshot, so that what is known better stands."""
    call = told["toolCallId"]
    if _object(_object(told, "rawOutput"), "metadata").get("interrupted") is True:
        return [f.CallClosed(call, "aborted")]
    words = _text(_object(told, "rawOutput"), "error") or _content(told)
    return _exited(told) or [f.SnapshotReceived(call, text=words, error=words)]


def _output(told: Said) -> Any:
    raw = told.get("rawOutput")
    if isinstance(raw, dict) and "output" in raw:
        return raw["output"]
    return raw if raw is not None else _content(told) or None


def _content(told: Said) -> str:
    parts = told.get("content")
    texts = (_text(_object(part, "content"), "text") for part in parts) if isinstance(parts, list) else ()
    return "\n".join(text for text in texts if text)


_METHODS: dict[tuple[str, str], Callable[[Said], Facts | Skipped]] = {
    (">", "session/prompt"): _prompt,
    (">", "session/cancel"): _cancel,
    ("<", "session/request_permission"): _asked,
    ("<", "session/update"): _update,
}
_UPDATES: dict[str, Callable[[Said], Facts]] = {
    "agent_message_chunk": _message,
    "agent_thought_chunk": _message,
    "tool_call": _call,
    "tool_call_update": _changed,
}
_STATUS: dict[str, Callable[[Said], Facts]] = {
    "in_progress": _running,
    "completed": _completed,
    "failed": _failed,
    "cancelled": lambda told: [f.CallClosed(told["toolCallId"], "aborted")],  # version 2
}
_QUIET = frozenset(
    {
        "initialize", "authenticate", "logout", "session/new", "session/load", "session/list", "session/resume",
        "session/fork", "session/close", "session/delete", "session/set_mode", "session/set_model",
        "session/set_config_option",
    }
)  # fmt: skip
_QUIET_ROOMS = ("fs/", "terminal/", "elicitation/", "providers/", "nes/", "_", "$/")
_QUIET_UPDATES = frozenset(
    {
        "user_message_chunk", "plan", "available_commands_update", "current_mode_update", "config_option_update",
        "session_info_update", "usage_update",
    }
)  # fmt: skip


def _object(said: Any, name: str) -> Said:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, dict) else {}


def _text(said: Any, name: str) -> str:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, str) else ""


ADAPTER = Adapter("acp", "1", decode, encode, run_of=run_of, number_of=number_of, body_is_stream=False)
