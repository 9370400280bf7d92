"""Claude Code's HTTP hooks: all hooks are recorded, PreToolUse and PermissionRequest wait for the gate's answer.

Claude Code runs the tool when a hook answers with anything but a 2xx status, or not at all (unless the hook
says `onFailure: "block"`, which `connect` writes). So a failure behind this address is a 200 that denies.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpResponse

from toolcards import feed, gate, outages
from toolcards.adapters import ADAPTERS, BadFrame
from toolcards.adapters.claude_code import find_folder, find_question_id
from toolcards.database import report_outage
from toolcards.gate import RequestRefused
from toolcards.models.approvals import ApprovalStatus
from toolcards.transports import shutdown
from toolcards.transports.agents.claude_code_hooks import (
    DENIALS,
    NOTE_EVENTS,
    SILENT,
    WAITING,
    HookInput,
    deny_pre_tool_use,
    find_gating_event,
    format_permission_request,
    format_pre_tool_use,
    format_retry,
    parse_hook,
    shorten_result,
)
from toolcards.transports.agents.frame_intake import Intake, build_fault
from toolcards.transports.api import auth
from toolcards.transports.api.api_errors import Problem, convert_bad_frame, convert_outage
from toolcards.transports.api.asgi_messages import build_error_response, build_response
from toolcards.transports.api.asgi_views import endpoint
from toolcards.transports.api.auth import Caller
from toolcards.transports.background.connections import PostedBody, hold_approval, wait_while_allowed

log = logging.getLogger(__name__)
EXPIRY_DELAY = 3.0  # seconds that the clock may be late
_BINDING = ("run", "call_id", "attempt", "tool", "args_sha256", "call_sha256", "waiting")
BINDING_FIELD = "toolcards"  # names the call that an answer is for, see toolcards/hook_relay/
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
        denial = _deny_unreadable(request.body, wrong.message)
        if denial is None:
            raise
        return denial
    answer_hook = _ANSWERS.get(hook.event)
    try:
        return _bind_output(request, await (answer_hook(hook) if answer_hook else _record_watched(hook)))
    except BadFrame as bad:
        return _answer_failure(hook, f"{bad.message}.", convert_bad_frame(bad))
    except (Problem, RequestRefused) as problem:
        return _answer_failure(hook, problem.message, problem)
    except Exception as error:
        if (outage := convert_outage(error)) is not None:
            return _answer_failure(hook, "its database is not available right now.", outage)
        log.exception("hook %s failed", hook.event)
        return _answer_failure(hook, "an internal error occurred.", error)


def _deny_unreadable(body: bytes, why: str) -> dict[str, Any] | None:
    """Return the denial of an unreadable input that may be a gating hook's."""
    deny = DENIALS.get(find_gating_event(body))
    return deny(BROKEN.format(f"{why.rstrip('.')}.")) if deny else None


async def _deny_too_large(request: Any, problem: Problem) -> HttpResponse | None:
    """Deny a gating input that is too long to be read.

    With another status than 200 the tool would run.
    """
    try:
        await auth.authenticate_agent(request.headers.get("Authorization", ""), "ingest", "decide")
    except Problem:
        return None
    denial = _deny_unreadable(request.body, problem.message)
    return build_response(denial) if denial else None


def _deny_unavailable(request: Any, problem: Problem) -> HttpResponse:
    """Deny a gating input while its key cannot be looked up.

    With another status than 200 the tool would run.
    """
    denial = _deny_unreadable(request.body, problem.message)
    return build_response(denial) if denial else build_error_response(problem)


claude_code.unavailable = _deny_unavailable  # type: ignore[attr-defined]
claude_code.too_large = _deny_too_large  # type: ignore[attr-defined]


def _bind_output(request: Any, output: dict[str, Any]) -> dict[str, Any]:
    """Return the output; with `?bound=1`, add the digest of the input and the call it answers."""
    call = output.pop(BINDING_FIELD, {})
    if not request.GET.get("bound"):
        return output
    return output | {BINDING_FIELD: {"answers": hashlib.sha256(request.body).hexdigest(), **call}}


def _bind_call(decision: dict[str, Any]) -> dict[str, Any]:
    return {BINDING_FIELD: {name: decision[name] for name in _BINDING if name in decision}}


def _answer_failure(hook: HookInput, why: str, error: Exception) -> Any:
    """Return the denial of a failed gating hook; report the error of a recorded one."""
    deny = DENIALS.get(hook.event)
    if deny is not None:
        return deny(BROKEN.format(why))
    if isinstance(error, Problem):
        raise error
    log.warning("hook %s was not recorded: %s", hook.event, why)
    return SILENT


# ---------------------------------------------------------------- what each hook gets


async def _record_watched(hook: HookInput) -> dict[str, Any]:
    try:
        await _record(hook, hook.text)
    except BadFrame as bad:
        if convert_bad_frame(bad).status != 413:
            raise
        await _record(hook, shorten_result(hook.data, len(hook.text)))
    if hook.event not in NOTE_EVENTS or hook.program not in {"", "claude-code"}:
        return SILENT
    card = await gate.aannounce_retry(hook.caller.agent, hook.run, str(hook.data.get("agent_id") or ""))
    return format_retry(hook.event, card.tool.name, card.shown_input) if card is not None else SILENT


async def _answer_pre_tool_use(hook: HookInput) -> dict[str, Any]:
    """Answer PreToolUse by the gate's decision; hold the request while people are asked."""
    decisions, _ = await _record(hook, hook.text)
    if not decisions:
        return deny_pre_tool_use("This call has already ended.")
    decision = decisions[-1]
    if decision["decision"] == "ask":
        decision = await _hold(hook, decision["approval"]["id"]) or {"decision": "deny"}
    return format_pre_tool_use(decision) | _bind_call(decision)


async def _answer_permission_request(hook: HookInput) -> dict[str, Any]:
    """Answer PermissionRequest; the first answer counts, at the terminal or here."""
    _, approvals = await _record(hook, hook.text)
    tool, tool_input = str(hook.data.get("tool_name", "")), hook.data.get("tool_input")
    if not approvals:
        question = find_question_id(hook.data)
        decision = await gate.afind_decision(hook.caller.agent, hook.run, tool, tool_input, question)
        return (
            format_permission_request(decision, tool_input) | _bind_call(decision)
            if decision and decision["decision"] in _PLAIN
            else SILENT
        )
    decision = await _hold(hook, approvals[0]["id"], withdraw=True)
    if decision is None or not decision.get("reply") or decision["by"]["kind"] != "human":
        return SILENT
    output: dict[str, Any] = decision["reply"]
    return output | _bind_call(decision)


_ANSWERS: dict[str, Callable[[HookInput], Awaitable[dict[str, Any]]]] = {
    "PreToolUse": _answer_pre_tool_use,
    "PermissionRequest": _answer_permission_request,
}
_PLAIN = frozenset({"allow", "deny"})


async def _record(hook: HookInput, text: str) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Record the hook; return its decisions and the approvals that the program opened.

    If the sender disconnects meanwhile, the approvals are withdrawn.
    """
    posted_body = PostedBody(gate.REQUEST_LEASE)
    decisions: list[dict[str, Any]] = []
    approvals: list[dict[str, str]] = []
    faults: list[str] = []

    def on_open(stream: gate.Stream) -> None:
        stream.patience, stream.asks_again_after = (0, hook.limit) if hook.asks_again else (hook.limit, 0)
        stream.program, stream.root = hook.program, find_folder(hook.data)
        posted_body.open(stream)

    def on_commit(report: gate.CommitReport) -> None:
        decisions.extend(report.decisions)
        approvals.extend(report.approvals)
        faults.extend(report.faults)

    intake = Intake(
        hook.caller, ADAPTERS["claude-code"], run=hook.run, agent=hook.agent, mode="gate", channel="hook",
        on_open=on_open, on_commit=on_commit,
    )  # fmt: skip
    try:
        error = intake.take(text)
        if error is not None and (error.code != "internal" or hook.event in DENIALS):
            raise error
        stream = intake.stream
        assert stream is not None
        try:
            await stream.wait_until_committed()
        except asyncio.CancelledError:  # it is being written all the same
            await stream.wait_until_committed()
            asks = [decision["approval"] for decision in decisions if decision["decision"] == "ask"]
            for approval in asks + approvals:
                await _withdraw(hook, approval["id"])
            raise
        if faults and hook.event in DENIALS:
            raise build_fault("")
    finally:
        posted_body.close()
    return decisions, approvals


async def _hold(hook: HookInput, approval: str, *, withdraw: bool = False) -> dict[str, Any] | None:
    """Wait for the answer and claim it: sent over a hook, it counts as used.

    Returns None if no one answered here in time. If the sender disconnects (Esc at the terminal), the approval is
    withdrawn, and so it is if its key is revoked.
    """
    deadline = time.monotonic() + hook.limit
    try:
        row = await shutdown.wait_unless_stopping(
            _wait_while_allowed(hook, approval, hook.limit + (0 if withdraw or hook.asks_again else EXPIRY_DELAY))
        )
        if hook.asks_again and not withdraw and (row is None or row.state == "pending"):
            await gate.arelease_hold(approval)
            return WAITING
        if row is None:
            await _withdraw(hook, approval)
            return None if withdraw else STOPPING
        if row.by_kind == "host":  # the user at the terminal was faster
            return None
        if row.state == "pending" and not withdraw:
            await gate.aexpire_approval(approval)
        elif row.state == "pending":
            await gate.awithdraw_approval(hook.caller.agent, approval)
            return None
        decision = await gate.aclaim_delivery(approval, hook.caller.key)
        return decision or await gate.aget_decision(hook.caller.agent, approval)
    except (Problem, gate.NotAllowed):
        await _withdraw(hook, approval)
        raise
    except asyncio.CancelledError:
        log.info("hook %s disconnected %.0f s before its limit", hook.event, deadline - time.monotonic())
        await asyncio.shield(_withdraw(hook, approval))
        raise


async def _wait_while_allowed(hook: HookInput, approval: str, seconds: float) -> ApprovalStatus:
    """Wait for the answer; raises Problem once the key is revoked."""
    answer = asyncio.ensure_future(feed.wait_for_answer(approval, seconds))
    try:
        with hold_approval(approval):
            await wait_while_allowed(hook.caller, [answer])
        return answer.result()
    finally:
        answer.cancel()


async def _withdraw(hook: HookInput, approval: str) -> None:
    try:
        await gate.awithdraw_approval(hook.caller.agent, approval)
    except Exception as error:  # its own deadline ends it
        if not isinstance(error, RequestRefused) and not report_outage(error, outages.WRITING):
            raise
        log.debug("not withdrawn: %s", error)
