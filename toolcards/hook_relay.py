"""`toolcards hook <program>`: a command hook that asks the gate, for programs whose own HTTP believes any answer.

Claude Code's HTTP hooks take every 2xx and every content type, and their answers name no call; Codex has command hooks
only. So the program starts this: it sends the hook input that it reads on standard input, and prints the answer only
where that is plainly one to these very bytes: see `HttpClient`, and `bound` in docs/api.md. Everything else is a deny.

Read from and tested with @anthropic-ai/claude-code 2.1.329 and @openai/codex 0.169.0. Codex takes an allow only with
other arguments than the model's, so a plain allow is `{}` there. Standard library and our client only: no database.
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
from toolcards.client.common.json_text import strict_object
from toolcards.client.http_client import HttpClient, Unreachable

PATH = "/api/v1/hooks/claude-code"
HOLD = 930.0  # seconds that a question is held, unless the command says otherwise
MARGIN = 15.0  # seconds beyond that for the answer to arrive
GIVE_UP = 1.0  # seconds that a hook which only tells may take
LONGEST = 8 << 20  # bytes of one hook input
BLOCK = 2  # the exit code that blocks in both programs, with the reason on standard error
NO = "Toolcards gave no answer that can be used ({}), so nothing was run."
CHANGED = "A person changed the arguments, and this question takes no others: call again with {}"
Said = dict[str, Any]


class NotBound(Exception):
    """An answer that is not plainly to this hook input."""


def main(argv: Sequence[str]) -> int:
    """Relay one hook input; return the exit code."""
    parser = argparse.ArgumentParser(prog="toolcards hook", description="Pass one hook input to the gate.")
    parser.add_argument("program", choices=sorted(_PROGRAMS))
    parser.add_argument("--url", default=os.environ.get("TOOLCARDS_URL", "http://127.0.0.1:8000"))
    parser.add_argument("--key-env", default="TOOLCARDS_AGENT_KEY", help="the variable that holds the agent key")
    parser.add_argument("--key-file", type=Path, help="a file that holds it")
    parser.add_argument("--limit", type=float, default=HOLD, help="seconds that a question is held")
    parser.add_argument("--by", default="", help=argparse.SUPPRESS)  # marks what `connect` has written
    asked = parser.parse_args(argv)
    data = sys.stdin.buffer.read(LONGEST + 1)
    try:
        if len(data) > LONGEST:
            raise ValueError("it is too long")
        hook = strict_object(data)
        output = relayed(asked, data, hook)
    except Exception as error:
        print(f"Toolcards could not read this hook input ({error}), so nothing was run.", file=sys.stderr)  # noqa: T201
        return BLOCK
    print(json.dumps(output))  # noqa: T201
    return 0


def relayed(asked: argparse.Namespace, data: bytes, hook: Said) -> Said:
    """Return the output for the hook's program."""
    event = str(hook.get("hook_event_name", ""))
    check = _CHECKS.get(event)
    try:
        answer = _sent(asked, data, asked.limit + MARGIN if check else GIVE_UP)
        output = check(answer, hook, data) if check else {}
    except (Unreachable, NotBound, OSError, ValueError) as error:
        deny = _DENIALS.get(event)
        if deny is None:
            return {"systemMessage": f"Toolcards was not told of {event} ({error}); it may be missing there."}
        output = deny(NO.format(error))
    return _PROGRAMS[asked.program][1](output)


def _sent(asked: argparse.Namespace, data: bytes, seconds: float) -> Said:
    key = asked.key_file.read_text("utf-8").strip() if asked.key_file else os.environ.get(asked.key_env, "")
    agent = _PROGRAMS[asked.program][0]
    query = urlencode({"limit": f"{asked.limit:g}", "agent": agent, "bound": 1})
    client = HttpClient(asked.url.rstrip("/"), {"Authorization": f"Bearer {key}"}, keep_alive=False)
    return client.request("POST", f"{PATH}?{query}", data, seconds)


# ---------------------------------------------------------------- what counts as an answer


def _pre_tool_use(answer: Said, hook: Said, data: bytes) -> Said:
    """Return the output of a PreToolUse: a deny, an allow, or `{}`, which leaves it to the program's own rules."""
    told = _specific(answer, "PreToolUse")
    decision = told.get("permissionDecision")
    if decision == "deny":
        return _deny(_reason(told.get("permissionDecisionReason")))
    if told and decision != "allow":
        raise NotBound("it is no decision")
    runs = _bound(answer, hook, data, told)
    if not told:
        return {}
    reason = _reason(told.get("permissionDecisionReason"))
    changed = {"updatedInput": runs} if "updatedInput" in told else {}
    said = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": said | changed}


def _permission(answer: Said, hook: Said, data: bytes) -> Said:
    """Return the output of a PermissionRequest: an answer, or `{}`, with which the program asks its own user."""
    told = _specific(answer, "PermissionRequest")
    if not told:
        return {}
    decision = told.get("decision")
    behavior = decision.get("behavior") if isinstance(decision, dict) else None
    if not isinstance(decision, dict) or behavior not in {"allow", "deny"}:
        raise NotBound("it is no decision")
    if behavior == "deny":
        return _deny_permission(_reason(decision.get("message")))
    runs = _bound(answer, hook, data, decision)
    changed = {"updatedInput": runs} if "updatedInput" in decision else {}
    said = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"} | changed}
    return {"hookSpecificOutput": said}


def _bound(answer: Said, hook: Said, data: bytes, told: Said) -> Any:
    """Return the input that may run; raises NotBound unless the answer is to these bytes, this call and that input."""
    bound = answer.get("toolcards")
    runs = told.get("updatedInput", hook.get("tool_input"))
    if not isinstance(runs, dict) or not isinstance(bound, dict):
        raise NotBound("it does not say what it answers")
    name, source = hook.get("tool_name"), _source(bound, hook)
    wanted = {
        "answers": hashlib.sha256(data).hexdigest(), "run": hook.get("session_id"), "args_sha256": digest(runs),
        "call_sha256": call_digest(runs, name=name, source=source),
    }  # fmt: skip
    if "tool_use_id" in hook:
        wanted["call_id"] = hook["tool_use_id"]
    if type(bound.get("attempt")) is not int or bound["attempt"] < 1:
        raise NotBound("it names no attempt")
    for name, value in wanted.items():
        if not isinstance(value, str) or bound.get(name) != value:
            raise NotBound(f"its {name} is not that of this call")
    return runs


def _source(bound: Said, hook: Said) -> str:
    """Return the server that the judged tool comes from; raises NotBound unless it is the tool of this call."""
    tool = bound.get("tool")
    if not isinstance(tool, dict) or not isinstance(tool.get("source"), str) or not isinstance(tool.get("name"), str):
        raise NotBound("it names no tool")
    if tool["name"] != hook.get("tool_name"):
        raise NotBound("it is for another tool")
    return str(tool["source"])


def _specific(answer: Said, event: str) -> Said:
    """Return the part of the answer for this event, {} where it has none."""
    if not set(answer) <= {"hookSpecificOutput", "toolcards"}:
        raise NotBound("it says what is not known here")
    told = answer.get("hookSpecificOutput", {})
    if not isinstance(told, dict) or (told and told.get("hookEventName") != event):
        raise NotBound("it is for another event")
    return told


def _reason(text: Any) -> str:
    return text[:8000] if isinstance(text, str) and text else "The gate did not allow this call."


def _deny(why: str) -> Said:
    told = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    return {"hookSpecificOutput": told}


def _deny_permission(why: str) -> Said:
    decision = {"behavior": "deny", "message": why}
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


_CHECKS: dict[str, Callable[[Said, Said, bytes], Said]] = {
    "PreToolUse": _pre_tool_use, "PermissionRequest": _permission,
}  # fmt: skip
_DENIALS = {"PreToolUse": _deny, "PermissionRequest": _deny_permission}


# ---------------------------------------------------------------- each program's own words


def _for_claude(output: Said) -> Said:
    return output


def _for_codex(output: Said) -> Said:
    """An allow is said only with other arguments; a permission request takes none."""
    told = output.get("hookSpecificOutput", {})
    if told.get("permissionDecision") == "allow":
        if "updatedInput" not in told:
            return {}
        return {"hookSpecificOutput": {k: v for k, v in told.items() if k != "permissionDecisionReason"}}
    decision = told.get("decision", {})
    if decision.get("behavior") == "allow" and "updatedInput" in decision:
        return _deny_permission(CHANGED.format(json.dumps(decision["updatedInput"])))
    return output


_PROGRAMS: dict[str, tuple[str, Callable[[Said], Said]]] = {
    "claude-code": ("Claude Code", _for_claude), "codex": ("Codex", _for_codex),
}  # fmt: skip
