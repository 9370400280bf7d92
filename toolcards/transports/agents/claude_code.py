"""Claude Code's HTTP hooks: every hook is watched, PreToolUse and PermissionRequest wait for the gate's answer.

Claude Code runs the tool when a hook answers with anything but a 2xx status, or not at all (unless the hook
says `onFailure: "block"`, which `connect` writes). So whatever goes wrong behind this address is a 200 that denies.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpResponse

from toolcards import feed, gate, outages
from toolcards.adapters import ADAPTERS, BadFrame
from toolcards.database import report_outage
from toolcards.gate import RequestRefused
from toolcards.transports import shutdown
from toolcards.transports.agents.claude_code_input import HookInput, find_gating_event, parse_hook
from toolcards.transports.agents.frame_intake import Intake
from toolcards.transports.api import auth
from toolcards.transports.api.api_errors import Problem, convert_bad_frame, convert_outage
from toolcards.transports.api.asgi_views import build_error_response, build_response, endpoint
from toolcards.transports.api.auth import Caller
from toolcards.transports.background.connections import Connection

log = logging.getLogger(__name__)
EXPIRY_DELAY = 3.0  # seconds that the clock may be late
SILENT: dict[str, Any] = {}  # no opinion: the program goes by its own rules
_EXPLICIT_DECIDERS = frozenset({"human", "rule", "grant", "break_glass"})  # whose yes is one; a default is no opinion
_BINDING = ("run", "call_id", "attempt", "tool", "args_sha256", "call_sha256")
BINDING_FIELD = "toolcards"  # what an answer is to, for senders that check it: see toolcards/hook_relay.py
NO_ONE = "No one answered in time."
STOPPING = {"decision": "deny", "reason": {"text": "Toolcards is restarting. Call the tool again in a moment."}}
BROKEN = "Toolcards could not decide: {} Nothing runs without a decision."


@endpoint("POST", "ingest", "decide")
async def claude_code(request: Any, caller: Caller) -> Any:
    """Take one hook input; return its hook output."""
    if not {"ingest", "decide"} <= caller.scopes:
        raise Problem(403, "scope", "Hooks need a key with the scopes ingest and decide.")
    try:
        hook = parse_hook(request, caller)
    except (BadFrame, Problem) as wrong:
        denied = _deny_unreadable(request.body, wrong.message)
        if denied is None:
            raise
        return denied
    answered = _ANSWERS.get(hook.event)
    try:
        return _bind_output(request, await (answered(hook) if answered else _record_watched(hook)))
    except BadFrame as bad:
        return _answer_failure(hook, f"{bad.message}.", convert_bad_frame(bad))
    except (Problem, RequestRefused) as problem:
        return _answer_failure(hook, problem.message, problem)
    except Exception as error:
        if (away := convert_outage(error)) is not None:
            return _answer_failure(hook, "its database is not available right now.", away)
        log.exception("hook %s failed", hook.event)
        return _answer_failure(hook, "something went wrong on its server.", error)


def _deny_unreadable(body: bytes, why: str) -> dict[str, Any] | None:
    """Deny an input that cannot be read, if it may be one of a gating hook."""
    deny = _DENIALS.get(find_gating_event(body))
    return deny(BROKEN.format(f"{why.rstrip('.')}.")) if deny else None


async def _deny_too_large(request: Any, problem: Problem) -> HttpResponse | None:
    """Deny a gating input that is too long to be read whole: with another status than 200 the tool would run."""
    try:
        await auth.authenticate_agent(request.headers.get("Authorization", ""), "ingest", "decide")
    except Problem:
        return None
    denied = _deny_unreadable(request.body, problem.message)
    return build_response(denied) if denied else None


def _deny_unavailable(request: Any, problem: Problem) -> HttpResponse:
    """Deny a gating input while its key cannot be looked up: with another status than 200 the tool would run."""
    denied = _deny_unreadable(request.body, problem.message)
    return build_response(denied) if denied else build_error_response(problem)


claude_code.unavailable = _deny_unavailable  # type: ignore[attr-defined]
claude_code.too_large = _deny_too_large  # type: ignore[attr-defined]


def _bind_output(request: Any, output: dict[str, Any]) -> dict[str, Any]:
    """Return the output, and what it answers where the sender asks for that; programs know no such field."""
    call = output.pop(BINDING_FIELD, {})
    answers = hashlib.sha256(request.body).hexdigest()
    return output | {BINDING_FIELD: {"answers": answers, **call}} if request.GET.get("bound") else output


def _bind_call(said: dict[str, Any]) -> dict[str, Any]:
    return {BINDING_FIELD: {name: said[name] for name in _BINDING if name in said}}


def _answer_failure(hook: HookInput, why: str, error: Exception) -> Any:
    """A gating hook that cannot be answered denies; of a watching one the sender hears what is wrong."""
    deny = _DENIALS.get(hook.event)
    if deny is not None:
        return deny(BROKEN.format(why))
    if isinstance(error, Problem):
        raise error
    log.warning("hook %s was not taken in: %s", hook.event, why)
    return SILENT


# ---------------------------------------------------------------- what each hook gets


async def _record_watched(hook: HookInput) -> dict[str, Any]:
    try:
        await _record(hook, hook.text)
    except BadFrame as bad:
        if convert_bad_frame(bad).status != 413:
            raise
        await _record(hook, _shorten(hook.said, len(hook.text)))
    return SILENT


async def _answer_pre_tool_use(hook: HookInput) -> dict[str, Any]:
    """PreToolUse: the gate decides; a question is held until somebody answers."""
    decisions, _ = await _record(hook, hook.text)
    if not decisions:
        return _deny("This call has already ended.")
    said = decisions[-1]
    if said["decision"] == "ask":
        said = await _hold(hook, said["approval"]["id"]) or {"decision": "deny"}
    return _format_pre_tool_use(said) | _bind_call(said)


async def _answer_permission_request(hook: HookInput) -> dict[str, Any]:
    """PermissionRequest: the program asks its user; whoever answers first, there or here, has answered."""
    _, asked = await _record(hook, hook.text)
    tool, given = str(hook.said.get("tool_name", "")), hook.said.get("tool_input")
    if not asked:
        said = await gate.afind_decision(hook.caller.agent, hook.run, tool, given)
        return _format_permission(said) | _bind_call(said) if said and said["decision"] in _PLAIN else SILENT
    held = await _hold(hook, asked[0]["id"], withdraw=True)
    return held["reply"] | _bind_call(held) if held and held.get("reply") and held["by"]["kind"] == "human" else SILENT


_ANSWERS: dict[str, Callable[[HookInput], Awaitable[dict[str, Any]]]] = {
    "PreToolUse": _answer_pre_tool_use,
    "PermissionRequest": _answer_permission_request,
}
_PLAIN = frozenset({"allow", "deny"})


async def _record(hook: HookInput, text: str) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Write the hook down; return what was decided, and the questions of the program's own that it opened.

    Who hangs up while it is being written asks nothing any more: what was opened is taken back.
    """
    writing = asyncio.ensure_future(_write(hook, text))
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        decisions, asked = await writing
        for opened in [said["approval"] for said in decisions if said["decision"] == "ask"] + asked:
            await _withdraw(hook, opened["id"])
        raise


async def _write(hook: HookInput, text: str) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    connection = Connection(hook.caller)
    decisions: list[dict[str, Any]] = []
    asked: list[dict[str, str]] = []

    def opened(stream: gate.Stream) -> None:
        stream.patience = hook.limit
        connection.sends(stream)

    def committed(told: gate.CommitReport) -> None:
        decisions.extend(told.decisions)
        asked.extend(told.approvals)

    intake = Intake(
        hook.caller, ADAPTERS["claude-code"], run=hook.run, agent=hook.agent, mode="gate", channel="hook",
        on_open=opened, on_commit=committed,
    )  # fmt: skip
    try:
        bad = intake.take(text)
        if bad is not None:
            raise bad
        assert intake.stream is not None
        await intake.stream.wait_until_committed()
    finally:
        connection.close(lease=gate.REQUEST_LEASE)
    return decisions, asked


async def _hold(hook: HookInput, approval: str, *, withdraw: bool = False) -> dict[str, Any] | None:
    """Wait for the answer and take it: told over a hook, it counts as used. None if nobody here answered in time.

    Who hangs up (Esc at the terminal) takes the question back.
    """
    until = time.monotonic() + hook.limit
    try:
        row = await shutdown.wait_unless_stopping(
            feed.wait_for_answer(approval, hook.limit + (0 if withdraw else EXPIRY_DELAY))
        )
        if row is None:
            await _withdraw(hook, approval)
            return None if withdraw else STOPPING
        if row.by_kind == "host":  # the user at the terminal was faster; nothing is owed any more
            return None
        if row.state == "pending" and not withdraw:
            await gate.aexpire_approval(approval)
        elif row.state == "pending":
            await gate.awithdraw_approval(hook.caller.agent, approval)
            return None
        return await gate.aclaim_delivery(approval) or await gate.aget_decision(hook.caller.agent, approval)
    except asyncio.CancelledError:
        log.info("hook %s hung up %.0f s before its limit", hook.event, until - time.monotonic())
        await asyncio.shield(_withdraw(hook, approval))
        raise


async def _withdraw(hook: HookInput, approval: str) -> None:
    try:
        await gate.awithdraw_approval(hook.caller.agent, approval)
    except Exception as error:  # its own deadline ends it
        if not isinstance(error, RequestRefused) and not report_outage(error, outages.WRITING):
            raise
        log.debug("not withdrawn: %s", error)


def _shorten(said: dict[str, Any], size: int) -> str:
    """A result too long to keep: the card shall end all the same."""
    note = f"[{size} bytes, too long to be kept by Toolcards]"
    short = {name: value for name, value in said.items() if name not in {"tool_response", "tool_calls"}}
    if "tool_response" in said:
        short["tool_response"] = note
    if isinstance(said.get("tool_calls"), list):
        calls = (call for call in said["tool_calls"] if isinstance(call, dict))
        short["tool_calls"] = [call | {"tool_response": note} for call in calls if not _is_error(call)]
    return json.dumps(short)


def _is_error(call: dict[str, Any]) -> bool:
    return str(call.get("tool_response", "")).startswith("<tool_use_error>")


# ---------------------------------------------------------------- hook outputs


def _format_pre_tool_use(said: dict[str, Any]) -> dict[str, Any]:
    """A yes that somebody gave is said; where only the default allows, the program's own rules go on."""
    if said["decision"] != "allow":
        return _deny(format_reason(said))
    if said["by"]["kind"] not in _EXPLICIT_DECIDERS:
        return SILENT
    told: dict[str, Any] = {"permissionDecision": "allow", "permissionDecisionReason": format_reason(said)}
    if "args" in said:
        told["updatedInput"] = said["args"]
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse"} | told}


def _format_permission(said: dict[str, Any]) -> dict[str, Any]:
    """The program asks although we have answered: the same answer, if a person gave it or it is a no."""
    if said["decision"] == "deny":
        return _deny_permission(format_reason(said))
    if said["by"]["kind"] != "human":
        return SILENT
    decision: dict[str, Any] = {"behavior": "allow"}
    if "args" in said:
        decision["updatedInput"] = said["args"]
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


def _deny(why: str) -> dict[str, Any]:
    told = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    return {"hookSpecificOutput": told}


def _deny_permission(why: str) -> dict[str, Any]:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest", "decision": {"behavior": "deny", "message": why},
        }
    }  # fmt: skip


_DENIALS = {"PreToolUse": _deny, "PermissionRequest": _deny_permission}


def format_reason(said: dict[str, Any]) -> str:
    """Return the decision's reason for the model to read, with the way that is open instead."""
    reason = said.get("reason") or {}
    text = NO_ONE if reason.get("code") == "approval_expired" else reason.get("text") or NO_ONE
    return " ".join(part for part in (text, reason.get("suggest", "")) if part)
