"""The hook inputs and outputs of each program, translated to and from Claude Code's form.

Read from and tested with @anthropic-ai/claude-code 2.1.329, @openai/codex 0.169.0, @google/gemini-cli 0.61.0 and
@github/copilot 1.0.102; Cursor's from its documentation. The hooks of the last three do not identify calls:
`open_calls` assigns each an id. Cline and Goose have their own modules.
"""

from __future__ import annotations

import json
from typing import Any

from toolcards.client.common.json_text import is_same_json, parse_strict_object
from toolcards.client.common.tool_results import format_result
from toolcards.hook_relay.answers import JsonObject, deny_permission
from toolcards.hook_relay.cline import CLINE
from toolcards.hook_relay.goose import GOOSE
from toolcards.hook_relay.translation import (
    CHANGED,
    HookProgram,
    find_first_text,
    keep_open,
    name_mcp_tool,
    translate_call,
    translate_result,
    translate_run_event,
)


def _keep_input(hook: JsonObject, event: str) -> JsonObject:
    return hook


def _keep_output(output: JsonObject, hook: JsonObject) -> JsonObject:
    return output


# ---------------------------------------------------------------- Codex


def _translate_codex(hook: JsonObject, event: str) -> JsonObject | None:
    """Move the reason of a permission request out of the arguments; the call itself does not have it.

    A command may run in another folder than the hook's: its `workdir` is not among the arguments of the hook.
    """
    arguments = hook.get("tool_input")
    if hook.get("hook_event_name") == "PreToolUse" and hook.get("tool_name") == "Bash":
        has_folder = isinstance(arguments, dict) and "workdir" in arguments
        hook = hook if has_folder else {name: value for name, value in hook.items() if name != "cwd"}
    if hook.get("hook_event_name") != "PermissionRequest" or not isinstance(arguments, dict):
        return hook
    if arguments.keys() != {"command", "description"}:  # tools of MCP servers may have an own description
        return hook
    return hook | {"tool_input": {"command": arguments["command"]}, "description": arguments["description"]}


def _format_for_codex(output: JsonObject, hook: JsonObject) -> JsonObject:
    """Report an allow only with changed arguments; a permission request takes none."""
    specific = output.get("hookSpecificOutput", {})
    if specific.get("permissionDecision") == "allow":
        if "updatedInput" not in specific:
            return {}
        return {"hookSpecificOutput": {k: v for k, v in specific.items() if k != "permissionDecisionReason"}}
    decision = specific.get("decision", {})
    if decision.get("behavior") == "allow":
        if not is_same_json(decision["updatedInput"], hook["tool_input"]):
            return deny_permission(CHANGED.format(json.dumps(decision["updatedInput"])))
        return {"hookSpecificOutput": specific | {"decision": {"behavior": "allow"}}}
    return output


# ---------------------------------------------------------------- Gemini CLI

_GEMINI_EVENTS = {"SessionStart": "SessionStart", "BeforeAgent": "UserPromptSubmit", "SessionEnd": "SessionEnd"}


def _translate_gemini(hook: JsonObject, _event: str) -> JsonObject | None:
    event, session = hook.get("hook_event_name"), str(hook.get("session_id", ""))
    if event == "BeforeTool":
        tool, server = _name_gemini_tool(hook)
        return translate_call(hook, session, tool, hook.get("tool_input"), **server)
    if event == "AfterTool":
        response = hook.get("tool_response")
        response = response if isinstance(response, dict) else {"llmContent": response}
        failure = response.get("error")
        error = None if failure is None else format_result(failure)
        (tool, server), arguments = _name_gemini_tool(hook), hook.get("tool_input")
        return translate_result(session, tool, arguments, output=response.get("llmContent"), error=error, **server)
    if event == "AfterAgent":
        answer = hook.get("prompt_response")
        return translate_run_event("Stop", hook, session, last_assistant_message=answer)
    if event in _GEMINI_EVENTS:
        more = {name: hook[name] for name in ("prompt", "reason") if name in hook}
        return translate_run_event(_GEMINI_EVENTS[event], hook, session, **more)
    raise ValueError(f"unknown event: {event!r}")


def _name_gemini_tool(hook: JsonObject) -> tuple[str, JsonObject]:
    """Return the tool's name and its MCP server; only a call of a server has a context."""
    context, name = hook.get("mcp_context"), str(hook.get("tool_name", ""))
    if not isinstance(context, dict):
        return name, {}
    return name_mcp_tool(context.get("server_name"), context.get("tool_name"), name)


def _format_for_gemini(output: JsonObject, hook: JsonObject) -> JsonObject:
    """Return the decision.

    The program merges changed arguments into those of the model, so none can be removed.
    """
    if hook["hook_event_name"] != "PreToolUse":
        return {}
    changed_input = output.get("hookSpecificOutput", {}).get("updatedInput")
    if changed_input is not None and not hook["tool_input"].keys() <= changed_input.keys():
        return {"decision": "deny", "reason": CHANGED.format(json.dumps(changed_input))}
    decision, reason, changed_input = keep_open(output, hook)
    if decision == "deny":
        return {"decision": "deny", "reason": reason}
    if changed_input is None:
        return {}
    return {"decision": "allow", "hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": changed_input}}


# ---------------------------------------------------------------- GitHub Copilot CLI

_COPILOT_EVENTS = {
    "sessionStart": "SessionStart", "userPromptSubmitted": "UserPromptSubmit", "agentStop": "Stop",
    "sessionEnd": "SessionEnd",
}  # fmt: skip


_COPILOT_SHELLS = frozenset({"bash", "powershell", "write_bash", "write_powershell"})


def _translate_copilot(hook: JsonObject, event: str) -> JsonObject | None:
    """Translate a hook input; it does not name its event."""
    session, tool = str(hook.get("sessionId", "")), str(hook.get("toolName", ""))
    arguments = hook.get("toolArgs")
    if isinstance(arguments, str):  # as text in earlier versions
        arguments = parse_strict_object(arguments.encode()) if arguments.strip() else {}
    if event == "preToolUse":
        keeps_folder = tool in _COPILOT_SHELLS  # between calls, and the hook does not name it
        return translate_call(hook | {"cwd": None} if keeps_folder else hook, session, tool, arguments)
    if event == "postToolUseFailure":
        return translate_result(session, tool, arguments, error=format_result(hook.get("error")))
    if event == "postToolUse":
        result = hook.get("toolResult")
        result = result if isinstance(result, dict) else {"textResultForLlm": result}
        text, kind = result.get("textResultForLlm"), result.get("resultType", "success")
        error = None if kind == "success" else format_result(text or result.get("error") or kind)
        return translate_result(session, tool, arguments, output=text, error=error)
    if event in _COPILOT_EVENTS:
        more = {name: hook[name] for name in ("prompt", "reason") if name in hook}
        return translate_run_event(_COPILOT_EVENTS[event], hook, session, **more)
    raise ValueError(f"unknown event: {event!r}")


def _format_for_copilot(output: JsonObject, hook: JsonObject) -> JsonObject:
    if hook["hook_event_name"] != "PreToolUse":
        return {}
    decision, reason, changed_input = keep_open(output, hook)
    if not decision:
        return {}
    more = {} if changed_input is None else {"modifiedArgs": changed_input}
    return {"permissionDecision": decision, "permissionDecisionReason": reason, **more}


# ---------------------------------------------------------------- Cursor

SHELL = "Shell"  # the name of Cursor's tool for commands
_CURSOR_EVENTS = {"beforeSubmitPrompt": "UserPromptSubmit", "stop": "Stop", "sessionEnd": "SessionEnd"}


def _translate_cursor(hook: JsonObject, _event: str) -> JsonObject | None:
    event, session = hook.get("hook_event_name"), str(hook.get("conversation_id") or hook.get("session_id") or "")
    if event != "beforeShellExecution":  # its shell keeps the folder that earlier commands changed to
        hook = hook | {"cwd": hook.get("cwd") or find_first_text(hook.get("workspace_roots"))}
    if event == "beforeShellExecution":
        return translate_call(hook, session, SHELL, {"command": hook.get("command")})
    if event == "afterShellExecution":
        return translate_result(session, SHELL, {"command": hook.get("command")}, output=hook.get("output"))
    if event == "beforeMCPExecution":
        tool, mcp_server = _name_cursor_tool(hook)
        return translate_call(hook, session, tool, _read_cursor_arguments(hook), **mcp_server)
    if event == "afterMCPExecution":
        (tool, mcp_server), arguments = _name_cursor_tool(hook), _read_cursor_arguments(hook)
        return translate_result(session, tool, arguments, output=hook.get("result_json"), **mcp_server)
    if event == "afterFileEdit":  # it cannot be held, so it is only recorded
        arguments = {"file_path": hook.get("file_path"), "edits": hook.get("edits")}
        return translate_result(session, "Write", arguments, output="Edited.")
    if event in _CURSOR_EVENTS:
        more = {name: hook[name] for name in ("prompt", "reason") if name in hook}
        return translate_run_event(_CURSOR_EVENTS[event], hook, session, **more)
    raise ValueError(f"unknown event: {event!r}")


def _name_cursor_tool(hook: JsonObject) -> tuple[str, JsonObject]:
    """Return the MCP tool's name and its server, if the name has it (`MCP:server:tool`)."""
    name = str(hook.get("tool_name", ""))
    server, _, tool = name.removeprefix("MCP:").partition(":")
    return name_mcp_tool(server if tool else "", tool, name.removeprefix("MCP:"))


def _read_cursor_arguments(hook: JsonObject) -> Any:
    arguments = hook.get("tool_input")
    if isinstance(arguments, str):
        return parse_strict_object(arguments.encode()) if arguments.strip() else {}
    return arguments


def _format_for_cursor(output: JsonObject, hook: JsonObject) -> JsonObject:
    """Return the permission; without one from us, Cursor asks its user."""
    if hook["hook_event_name"] != "PreToolUse":
        return {"continue": True} if hook["hook_event_name"] == "UserPromptSubmit" else {}
    changed_input = output.get("hookSpecificOutput", {}).get("updatedInput")
    if changed_input is not None:
        return _deny_for_cursor(CHANGED.format(json.dumps(changed_input)))
    decision, reason, _ = keep_open(output, hook)
    return _deny_for_cursor(reason) if decision == "deny" else {"permission": decision or "ask"}


def _deny_for_cursor(reason: str) -> JsonObject:
    words = dict.fromkeys(("user_message", "agent_message", "userMessage", "agentMessage"), reason)
    return {"permission": "deny", **words}  # the last two are names of earlier versions


PROGRAMS = {
    "cline": CLINE,
    "goose": GOOSE,
    "claude-code": HookProgram("Claude Code", "claude-code", _keep_input, _keep_output, takes_notes=True),
    "codex": HookProgram("Codex", "codex", _translate_codex, _format_for_codex),
    "copilot": HookProgram(
        "GitHub Copilot CLI", "github-copilot", _translate_copilot, _format_for_copilot, lambda text: {}
    ),
    "cursor": HookProgram("Cursor", "cursor", _translate_cursor, _format_for_cursor, lambda text: {"continue": True}),
    "gemini-cli": HookProgram("Gemini CLI", "gemini-cli", _translate_gemini, _format_for_gemini),
}
