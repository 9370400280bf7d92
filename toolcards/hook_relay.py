"""`toolcards hook <program>`: a command hook that asks the gate, for programs that trust any HTTP answer.

Claude Code's HTTP hooks accept every 2xx and every content type, and their answers name no call; Codex has only command
hooks. So the program starts this command: it sends the hook input from standard input and prints the answer only if it
answers exactly these bytes (see `HttpClient`, and `bound` in docs/api.md). Everything else is a deny.

Read from and tested with @anthropic-ai/claude-code 2.1.329 and @openai/codex 0.169.0. Codex accepts an allow only with
changed arguments, so a plain allow is `{}` there. Only the standard library and our client: no database.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from toolcards.client.common.canonical_json import call_digest, digest
from toolcards.client.common.json_text import parse_strict_object
from toolcards.client.http_client import HttpClient, Unreachable

PATH = "/api/v1/hooks/claude-code"
HOLD = 930.0  # seconds that a call is held by default
MARGIN = 15.0  # seconds on top for the answer to arrive
GIVE_UP = 1.0  # seconds for a hook that only reports
LONGEST = 8 << 20  # bytes of one hook input
BLOCK = 2  # the exit code that blocks in both programs, with the reason on standard error
NO_ANSWER = "Toolcards gave no answer that can be used ({}), so nothing was run."
CHANGED = "A person changed the arguments, which this request cannot carry: call again with {}"
JsonObject = dict[str, Any]


class AnswerMismatch(Exception):
    """The answer does not match this hook input."""


def main(argv: Sequence[str]) -> int:
    """Relay one hook input; return the exit code."""
    parser = argparse.ArgumentParser(prog="toolcards hook", description="Pass one hook input to the gate.")
    parser.add_argument("program", choices=sorted(_PROGRAMS))
    parser.add_argument("--url", default=os.environ.get("TOOLCARDS_URL", "http://127.0.0.1:8000"))
    parser.add_argument("--key-env", default="TOOLCARDS_AGENT_KEY", help="the variable that holds the agent key")
    parser.add_argument("--key-file", type=Path, help="a file that holds it")
    parser.add_argument("--limit", type=float, default=HOLD, help="seconds that a call is held")
    parser.add_argument("--by", default="", help=argparse.SUPPRESS)  # marks the hooks that `connect` wrote
    options = parser.parse_args(argv)
    data = sys.stdin.buffer.read(LONGEST + 1)
    try:
        if len(data) > LONGEST:
            raise ValueError("it is too long")
        hook = parse_strict_object(data)
        output = relay(options, data, hook)
    except Exception as error:
        print(f"Toolcards could not read this hook input ({error}), so nothing was run.", file=sys.stderr)  # noqa: T201
        return BLOCK
    print(json.dumps(output))  # noqa: T201
    return 0


def relay(options: argparse.Namespace, data: bytes, hook: JsonObject) -> JsonObject:
    """Send the hook input; return the output for the program."""
    event = str(hook.get("hook_event_name", ""))
    check = _CHECKS.get(event)
    try:
        answer = _send(options, data, options.limit + MARGIN if check else GIVE_UP)
        output = check(answer, hook, data) if check else {}
    except (Unreachable, AnswerMismatch, OSError, ValueError) as error:
        deny = _DENIALS.get(event)
        if deny is None:
            return {"systemMessage": f"Toolcards did not receive {event} ({error}), so it may be missing there."}
        output = deny(NO_ANSWER.format(error))
    return _PROGRAMS[options.program][1](output)


def _send(options: argparse.Namespace, data: bytes, seconds: float) -> JsonObject:
    key = options.key_file.read_text("utf-8").strip() if options.key_file else os.environ.get(options.key_env, "")
    agent = _PROGRAMS[options.program][0]
    query = urlencode({"limit": f"{options.limit:g}", "agent": agent, "bound": 1})
    client = HttpClient(options.url.rstrip("/"), {"Authorization": f"Bearer {key}"}, keep_alive=False)
    return client.request("POST", f"{PATH}?{query}", data, seconds)


# ---------------------------------------------------------------- what counts as an answer


def _check_pre_tool_use(answer: JsonObject, hook: JsonObject, data: bytes) -> JsonObject:
    """Check a PreToolUse answer: a deny, an allow, or `{}` (the program's own rules decide)."""
    output = _get_hook_output(answer, "PreToolUse")
    decision = output.get("permissionDecision")
    if decision == "deny":
        return _deny(_format_reason(output.get("permissionDecisionReason")))
    if output and decision != "allow":
        raise AnswerMismatch("it is not a decision")
    allowed_input = _check_binding(answer, hook, data, output)
    if not output:
        return {}
    reason = _format_reason(output.get("permissionDecisionReason"))
    changed = {"updatedInput": allowed_input} if "updatedInput" in output else {}
    result = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": result | changed}


def _check_permission(answer: JsonObject, hook: JsonObject, data: bytes) -> JsonObject:
    """Check a PermissionRequest answer: a decision, or `{}` (the program asks its own user)."""
    output = _get_hook_output(answer, "PermissionRequest")
    if not output:
        return {}
    decision = output.get("decision")
    behavior = decision.get("behavior") if isinstance(decision, dict) else None
    if not isinstance(decision, dict) or behavior not in {"allow", "deny"}:
        raise AnswerMismatch("it is not a decision")
    if behavior == "deny":
        return _deny_permission(_format_reason(decision.get("message")))
    allowed_input = _check_binding(answer, hook, data, decision)
    changed = {"updatedInput": allowed_input} if "updatedInput" in decision else {}
    result = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"} | changed}
    return {"hookSpecificOutput": result}


def _check_binding(answer: JsonObject, hook: JsonObject, data: bytes, decision: JsonObject) -> Any:
    """Return the input that may run; raises AnswerMismatch unless the answer is for these bytes and this call."""
    binding = answer.get("toolcards")
    allowed_input = decision.get("updatedInput", hook.get("tool_input"))
    if not isinstance(allowed_input, dict) or not isinstance(binding, dict):
        raise AnswerMismatch("it does not say what it answers")
    name: Any = hook.get("tool_name")
    source = _check_tool(binding, hook)
    expected = {
        "answers": hashlib.sha256(data).hexdigest(), "run": hook.get("session_id"),
        "args_sha256": digest(allowed_input),
        "call_sha256": call_digest(allowed_input, name=name, source=source),
    }  # fmt: skip
    if "tool_use_id" in hook:
        expected["call_id"] = hook["tool_use_id"]
    if type(binding.get("attempt")) is not int or binding["attempt"] < 1:
        raise AnswerMismatch("it names no attempt")
    for name, value in expected.items():
        if not isinstance(value, str) or binding.get(name) != value:
            raise AnswerMismatch(f"its {name} is not that of this call")
    return allowed_input


def _check_tool(binding: JsonObject, hook: JsonObject) -> str:
    """Return the MCP server of the evaluated tool; raises AnswerMismatch unless it is the tool of this call."""
    tool = binding.get("tool")
    if not isinstance(tool, dict) or not isinstance(tool.get("source"), str) or not isinstance(tool.get("name"), str):
        raise AnswerMismatch("it names no tool")
    if tool["name"] != hook.get("tool_name"):
        raise AnswerMismatch("it is for another tool")
    return str(tool["source"])


def _get_hook_output(answer: JsonObject, event: str) -> JsonObject:
    """Return the answer's output for this event, {} if there is none."""
    if not set(answer) <= {"hookSpecificOutput", "toolcards"}:
        raise AnswerMismatch("it has unknown fields")
    output = answer.get("hookSpecificOutput", {})
    if not isinstance(output, dict) or (output and output.get("hookEventName") != event):
        raise AnswerMismatch("it is for another event")
    return output


def _format_reason(text: Any) -> str:
    return text[:8000] if isinstance(text, str) and text else "The gate did not allow this call."


def _deny(why: str) -> JsonObject:
    result = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    return {"hookSpecificOutput": result}


def _deny_permission(why: str) -> JsonObject:
    decision = {"behavior": "deny", "message": why}
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


_CHECKS: dict[str, Callable[[JsonObject, JsonObject, bytes], JsonObject]] = {
    "PreToolUse": _check_pre_tool_use, "PermissionRequest": _check_permission,
}  # fmt: skip
_DENIALS = {"PreToolUse": _deny, "PermissionRequest": _deny_permission}


# ---------------------------------------------------------------- each program's output


def _format_for_claude(output: JsonObject) -> JsonObject:
    return output


def _format_for_codex(output: JsonObject) -> JsonObject:
    """Report an allow only with changed arguments; a permission request takes none."""
    specific = output.get("hookSpecificOutput", {})
    if specific.get("permissionDecision") == "allow":
        if "updatedInput" not in specific:
            return {}
        return {"hookSpecificOutput": {k: v for k, v in specific.items() if k != "permissionDecisionReason"}}
    decision = specific.get("decision", {})
    if decision.get("behavior") == "allow" and "updatedInput" in decision:
        return _deny_permission(CHANGED.format(json.dumps(decision["updatedInput"])))
    return output


_PROGRAMS: dict[str, tuple[str, Callable[[JsonObject], JsonObject]]] = {
    "claude-code": ("Claude Code", _format_for_claude), "codex": ("Codex", _format_for_codex),
}  # fmt: skip
