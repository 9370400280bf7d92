"""Inputs and outputs of Claude Code hooks, so that a gating hook is never mistaken for another.

Claude Code (read from and tested with 2.1.329) runs the tool when a hook answers anything but a 2xx status. So an
input that cannot be read must still show whether it is of a gating event: then it is denied in that event's own words.
An empty output means no opinion.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from toolcards.adapters import BadFrame, strict
from toolcards.client.common.tool_kinds import is_program
from toolcards.transports.agents.frame_intake import check_run_name
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.auth import Caller

HOST_LIMIT = 600.0  # seconds that Claude Code 2.1.329 waits for a hook unless its `timeout` says otherwise
MARGIN = 10.0  # seconds before the host's limit at which Toolcards denies: an elapsed hook lets the tool run
GATING = ("PreToolUse", "PermissionRequest")
_BY_LETTERS = {event.lower(): event for event in GATING}
_EVENT_NAME = re.compile("|".join(GATING), re.IGNORECASE)
_NO_LETTER = re.compile(r"[^a-z]")


@dataclass(frozen=True, slots=True)
class HookInput:
    """One hook input: its JSON object, its sender, and how long the sender waits."""

    caller: Caller
    event: str
    data: dict[str, Any]
    text: str
    limit: float
    agent: str
    program: str = ""  # the agent program in the catalog of tools, if the sender names it
    asks_again: bool = False  # at the limit the question stays, and the same call comes again under its id

    @property
    def run(self) -> str:
        """The session."""
        return str(self.data.get("session_id", ""))


def parse_hook(request: Any, caller: Caller) -> HookInput:
    """Return the hook; raises BadFrame or Problem for an invalid input."""
    try:
        text = request.body.decode("utf-8")
    except UnicodeDecodeError:
        raise BadFrame("not JSON: not UTF-8", "not_json") from None
    pairs = _parse_members(text)
    data = dict(pairs)
    event = data.get("hook_event_name")
    if not isinstance(event, str) or not event:
        raise BadFrame("a hook input must be one JSON object with hook_event_name", "not_object")
    if not isinstance(data.get("session_id"), str) or not data["session_id"]:
        raise BadFrame("session_id: Field required", "missing_field")
    gating = _match_gating_event(pairs)
    if gating and event != gating:
        raise BadFrame(f"hook_event_name: {gating} is misspelled or occurs twice", "bad_field")
    check_run_name(data["session_id"])
    agent = request.GET.get("agent", "") or "Claude Code"
    limit, program = _parse_limit(request.GET.get("limit", "")), request.GET.get("program", "")
    if program and not is_program(program):
        raise Problem(400, "bad_program", "program must be an agent program of the catalog of tools.")
    hook = HookInput(caller, event, data, text, limit, agent, program, request.GET.get("ask_again") == "1")
    if gating:
        _check_call(data)
    return hook


def find_gating_event(body: bytes) -> str:
    """Return the gating event that the body may belong to, or "".

    The body can be invalid JSON.
    """
    text = body.decode("utf-8", "replace")
    try:
        pairs = _parse_members(text)
    except BadFrame:
        match = _EVENT_NAME.search(text)
        return _BY_LETTERS[match.group().lower()] if match else ""
    return _match_gating_event(pairs)


def _parse_members(text: str) -> list[tuple[str, Any]]:
    """Return the members of the outermost object with duplicates; raises BadFrame."""
    outermost: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal outermost
        outermost = pairs
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=keep)
    except (RecursionError, ValueError) as error:
        raise strict.build_error(text, error) from None
    if not isinstance(value, dict):
        raise BadFrame("a hook input must be one JSON object with hook_event_name", "not_object")
    return outermost


def _match_gating_event(pairs: list[tuple[str, Any]]) -> str:
    """Return the gating event that one of the event names spells, or "".

    A tool call without any event name counts as PreToolUse.
    """
    names = [value for member, value in pairs if member == "hook_event_name"]
    for value in names:
        letters = _NO_LETTER.sub("", value.lower()) if isinstance(value, str) else ""
        if letters in _BY_LETTERS:
            return _BY_LETTERS[letters]
    nameless = not any(isinstance(value, str) and value for value in names)
    return GATING[0] if nameless and {"tool_name", "tool_input"} & dict(pairs).keys() else ""


def _check_call(data: dict[str, Any]) -> None:
    """Raise BadFrame unless the input has a tool and an input object."""
    tool = data.get("tool_name")
    if not isinstance(tool, str) or not tool.strip():
        raise BadFrame("tool_name: Field required", "missing_field")
    if not isinstance(data.get("tool_input"), dict):
        raise BadFrame("tool_input: must be an object", "missing_field" if "tool_input" not in data else "bad_field")


def _parse_limit(text: str) -> float:
    """Return the seconds an approval is held: `?limit=`, else the program's default."""
    try:
        seconds = float(text) if text else HOST_LIMIT - MARGIN
    except ValueError:
        seconds = float("nan")
    if seconds != seconds:
        raise Problem(400, "bad_limit", "limit must be a number of seconds.")
    return min(max(seconds, 1.0), 86_400.0)


def shorten_result(hook_input: dict[str, Any], size: int) -> str:
    """Return the hook without its long result: the card still ends."""
    note = f"[{size} bytes, too long to be kept by Toolcards]"
    short = {name: value for name, value in hook_input.items() if name not in {"tool_response", "tool_calls"}}
    if "tool_response" in hook_input:
        short["tool_response"] = note
    if isinstance(hook_input.get("tool_calls"), list):
        calls = (call for call in hook_input["tool_calls"] if isinstance(call, dict))
        short["tool_calls"] = [call | {"tool_response": note} for call in calls if not _is_error(call)]
    return json.dumps(short)


def _is_error(call: dict[str, Any]) -> bool:
    return str(call.get("tool_response", "")).startswith("<tool_use_error>")


# ---------------------------------------------------------------- outputs

SILENT: dict[str, Any] = {}  # no opinion: the program follows its own rules
# The question stays, and the agent asks again.
WAITING = {
    "decision": "deny", "waiting": True,
    "reason": {"text": (
        "Waiting for approval: a person was asked and has not answered yet. The call has not run, and it is not denied."
        " To get the answer, call the same tool again with exactly the same arguments. Other arguments are a new"
        " question."
    )},
}  # fmt: skip
NO_ONE = "No one answered in time."
# Deciders whose permission is passed on. Where only the default allows, the output is silent.
_EXPLICIT_DECIDERS = frozenset({"human", "reviewer", "rule", "grant", "break_glass"})


def format_pre_tool_use(decision: dict[str, Any]) -> dict[str, Any]:
    """Return the output of PreToolUse; silent where only the default allows."""
    if decision["decision"] != "allow":
        return deny_pre_tool_use(format_reason(decision))
    if decision["by"]["kind"] not in _EXPLICIT_DECIDERS:
        return SILENT
    output: dict[str, Any] = {"permissionDecision": "allow", "permissionDecisionReason": format_reason(decision)}
    if "args" in decision:
        output["updatedInput"] = decision["args"]
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse"} | output}


def format_permission_request(decision: dict[str, Any], tool_input: Any) -> dict[str, Any]:
    """Return the output of PermissionRequest for a call that is already decided.

    Silent unless a person or reviewer decided, or the call is denied. An allow repeats the input: ExitPlanMode stays
    blocked else.
    """
    if decision["decision"] == "deny":
        return deny_permission_request(format_reason(decision))
    if decision["by"]["kind"] not in {"human", "reviewer"}:
        return SILENT
    behavior = {"behavior": "allow", "updatedInput": decision.get("args", tool_input)}
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": behavior}}


def deny_pre_tool_use(why: str) -> dict[str, Any]:
    """Return the output that denies a PreToolUse."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    return {"hookSpecificOutput": output}


def deny_permission_request(why: str) -> dict[str, Any]:
    """Return the output that denies a PermissionRequest."""
    return {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest", "decision": {"behavior": "deny", "message": why},
        }
    }  # fmt: skip


DENIALS = {"PreToolUse": deny_pre_tool_use, "PermissionRequest": deny_permission_request}


# Events whose output can have a note for the model.
NOTE_EVENTS = frozenset({"UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"})
LONGEST_INPUT = 4_000  # characters of the input in a note
RETRY = (
    "A person has reviewed your call of {tool} that was refused, and lets it run, once. If the task still needs it,"
    " call {tool} again now with exactly the same input: {input} Any other input is reviewed as usual."
)


def format_retry(event: str, tool: str, tool_input: Any) -> dict[str, Any]:
    """Return the output that lets the model try a refused call again."""
    text = json.dumps(tool_input, ensure_ascii=False)
    text = RETRY.format(tool=tool, input=text if len(text) <= LONGEST_INPUT else "that of the refused call.")
    if event == "Stop":  # the turn would end without the call
        return {"decision": "block", "reason": text}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def format_reason(decision: dict[str, Any]) -> str:
    """Return the decision's reason and suggestion as a text for the model."""
    reason = decision.get("reason") or {}
    text = NO_ONE if reason.get("code") == "approval_expired" else reason.get("text") or NO_ONE
    return " ".join(part for part in (text, reason.get("suggest", "")) if part)
