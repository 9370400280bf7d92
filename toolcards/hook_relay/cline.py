"""Cline's hooks, translated to and from Claude Code's form.

Read from and tested with cline 3.0.65. Its call ids come from the model, which may reuse them, so each call gets an id
of ours. A denial is `cancel`: Cline then ends the run, and its model does not receive the reason. While a question of a
call outlives its hook, the run does not end here, so that the same call after the next prompt gets the answer.
"""

from __future__ import annotations

from typing import Any

from toolcards.client.common.tool_results import format_result
from toolcards.hook_relay.answers import JsonObject
from toolcards.hook_relay.translation import (
    HookProgram,
    find_first_text,
    has_question,
    keep_open,
    translate_call,
    translate_result,
    translate_run_event,
)

# A session that ends normally has no event: the run ends with each answer and continues with the next prompt.
_RUN_EVENTS = {
    "agent_start": "SessionStart", "agent_resume": "SessionStart", "prompt_submit": "UserPromptSubmit",
    "agent_end": "SessionEnd", "agent_error": "SessionEnd", "agent_abort": "SessionEnd",
    "session_shutdown": "SessionEnd",
}  # fmt: skip


_CONTINUED = frozenset(_RUN_EVENTS) - {"session_shutdown"}


def _translate(hook: JsonObject, _event: str) -> JsonObject | None:
    """Translate a hook input; those of a sub-agent name their parent, and its run continues when they end."""
    event, session = hook.get("hookName"), _find_session(hook)
    hook = hook | {"cwd": find_first_text(hook.get("workspaceRoots"))}
    subagent = {"agent_id": str(hook.get("agent_id"))} if hook.get("parent_agent_id") else {}
    if event == "tool_call":
        call = _get_object(hook, "tool_call")
        return translate_call(hook, session, str(call.get("name", "")), call.get("input"), **subagent)
    if event == "tool_result":
        record = _get_object(hook, "tool_result")
        error, output = record.get("error"), record.get("output")
        tool, failure = str(record.get("name", "")), None if error is None else format_result(error)
        return translate_result(session, tool, record.get("input"), output=output, error=failure, **subagent)
    if event in _RUN_EVENTS:
        if event in _CONTINUED and has_question(session):  # the end would withdraw the question of the denied call
            return None
        return None if subagent else translate_run_event(_RUN_EVENTS[event], hook, session, **_read_text(hook))
    raise ValueError(f"unknown event: {event!r}")


def _find_session(hook: JsonObject) -> str:
    """Return the session that the user sees; each agent has its own conversation."""
    context = hook.get("sessionContext")
    session = context.get("rootSessionId") if isinstance(context, dict) else None
    return str(session or hook.get("taskId") or "")


def _read_text(hook: JsonObject) -> dict[str, Any]:
    """Return the prompt or the reason of the end, if the event has one."""
    prompt = hook.get("userPromptSubmit")
    texts = {"prompt": prompt.get("prompt") if isinstance(prompt, dict) else None, "reason": hook.get("reason")}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _get_object(hook: JsonObject, name: str) -> JsonObject:
    value = hook.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def _format(output: JsonObject, hook: JsonObject) -> JsonObject:
    """Return the decision; `{}` for an event that only reports, since any `cancel` would end the run."""
    if hook["hook_event_name"] != "PreToolUse":
        return {}
    decision, reason, changed_input = keep_open(output, hook)
    if decision == "deny":
        return {"cancel": True, "errorMessage": reason}
    return {"cancel": False} if changed_input is None else {"cancel": False, "overrideInput": changed_input}


CLINE = HookProgram("Cline", "cline", _translate, _format, lambda text: {}, asks_again=True)
