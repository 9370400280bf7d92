"""Shared parts of the translations: run events, calls that hooks do not identify, and their results.

The hooks before and after a tool are two processes. They find each other by session, tool and arguments, through one
empty file per allowed call without a result; of two equal calls, the newer one is closed first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcards.hook_relay.answers import JsonObject

CHANGED = "A person changed the arguments, but this request cannot carry them. To continue, call the tool again with {}"

_QUESTION = "waiting-"
LONGEST_QUESTION = 86_400.0  # seconds after which an answer is no longer expected
LONGEST_SESSION = 7 * 86_400.0  # seconds after which the files of a session are removed


@dataclass(frozen=True, slots=True)
class HookProgram:
    """One program: its names as an agent and in the catalog, and how its hooks are translated.

    `translate` takes the hook input and the event of the command line, and returns the input in Claude Code's form, or
    None if there is nothing to send. `format` takes the output in Claude Code's form and the input that it answers.
    """

    title: str
    catalog: str  # the program's name in the catalog of tools
    translate: Callable[[JsonObject, str], JsonObject | None]
    format: Callable[[JsonObject, JsonObject], JsonObject]
    warn: Callable[[str], JsonObject] = lambda text: {"systemMessage": text}
    takes_notes: bool = False  # what the model reads is in its output
    asks_again: bool = False  # its limit is below that of questions: they stay, and the same call gets the answer


def find_first_text(values: Any) -> str | None:
    """Return the first text of a list, None without one."""
    return values[0] if isinstance(values, list) and values and isinstance(values[0], str) else None


def name_mcp_tool(server: Any, tool: Any, name: str) -> tuple[str, JsonObject]:
    """Return an MCP tool's name, and its server as in Claude Code.

    Without its server it gets the mark of such tools, so that it never counts as a tool of the program itself.
    """
    if isinstance(server, str) and isinstance(tool, str) and server and tool:
        return f"mcp__{server}__{tool}", {"mcp_server": {"name": server}}
    return (name if name.startswith("mcp_") else f"mcp__{name}"), {}


def translate_call(hook: JsonObject, session: str, tool: Any, arguments: Any, **more: Any) -> JsonObject:
    """Return the PreToolUse of a call.

    It has a new id, or that of its open question.
    """
    if not isinstance(arguments, dict):
        raise ValueError("the arguments of the tool are not an object")
    call = {"session_id": session, "tool_name": tool, "tool_input": arguments, "tool_use_id": ""}
    call |= {"hook_event_name": "PreToolUse", "cwd": hook.get("cwd"), **more}
    return call | {"tool_use_id": take_question(call) or make_id()}


def translate_result(
    session: str, tool: str, arguments: Any, *, output: Any = None, error: str | None = None, **more: Any
) -> JsonObject | None:
    """Return the PostToolUse or PostToolUseFailure of a call.

    A success without an open call ran although no hook allowed it: it is reported under a new id. A failure without one
    was denied, and is known.
    """
    call_id = close_call(session, tool, arguments)
    if call_id is None and error is not None:
        return None
    call = {"session_id": session, "tool_name": tool, "tool_input": arguments, **more}
    call["tool_use_id"] = call_id or make_id()
    if error is not None:
        return {"hook_event_name": "PostToolUseFailure", **call, "error": error}
    return {"hook_event_name": "PostToolUse", **call, "tool_response": output}


def translate_run_event(event: str, hook: JsonObject, session: str, **more: Any) -> JsonObject:
    """Return an event of the run.

    The end of the session forgets its open calls.
    """
    if event == "SessionEnd":
        forget_session(session)
    return {"hook_event_name": event, "session_id": session, "cwd": hook.get("cwd"), **more}


def keep_open(output: JsonObject, hook: JsonObject) -> tuple[str, str, JsonObject | None]:
    """Return decision, reason and changed arguments of a PreToolUse.

    Keep the call open unless it is denied.
    """
    specific = output.get("hookSpecificOutput", {})
    decision, changed_input = specific.get("permissionDecision", ""), specific.get("updatedInput")
    if decision != "deny":
        arguments = hook["tool_input"] if changed_input is None else changed_input
        open_call(hook["session_id"], hook["tool_name"], arguments, hook["tool_use_id"])
    return decision, specific.get("permissionDecisionReason", ""), changed_input


def make_id() -> str:
    """Return a new call id."""
    return f"call_{secrets.token_hex(8)}"


def open_call(session: str, tool: str, arguments: Any, call_id: str) -> None:
    """Store the id of a call that may run now."""
    folder = _find_folder(session)
    if not folder.exists():
        _remove_old_sessions(folder.parent)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / f"{_digest(tool, arguments)}.{time.time_ns():020}.{call_id}").touch(mode=0o600)


def close_call(session: str, tool: str, arguments: Any) -> str | None:
    """Remove the open call with this tool and arguments; return its id."""
    for path in sorted(_find_folder(session).glob(f"{_digest(tool, arguments)}.*"), reverse=True):
        try:
            path.unlink()  # only one process succeeds
        except FileNotFoundError:
            continue
        return path.name.rpartition(".")[2]
    return None


def keep_question(call: JsonObject) -> None:
    """Store the id of a waiting call, for the same call again.

    The same has all fields: agent, tool, server, arguments and folder.
    """
    folder = _find_folder(call["session_id"])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / f"{_name_question(call)}.{call['tool_use_id']}").touch(mode=0o600)


def take_question(call: JsonObject) -> str | None:
    """Return the id of the same waiting call, once."""
    for path in _find_folder(call["session_id"]).glob(f"{_name_question(call)}.*"):
        try:
            path.unlink()  # only one process succeeds: a question has one call
        except FileNotFoundError:
            continue
        return path.name.rpartition(".")[2]
    return None


def _name_question(call: JsonObject) -> str:
    return f"{_QUESTION}{_digest('', call | {'tool_use_id': ''})}"


def has_question(session: str) -> bool:
    """Return whether a call of the session waits for a person."""
    newest = max((path.stat().st_mtime for path in _find_folder(session).glob(f"{_QUESTION}*")), default=0.0)
    return newest > time.time() - LONGEST_QUESTION


def forget_session(session: str) -> None:
    """Remove the open calls of a session."""
    shutil.rmtree(_find_folder(session), ignore_errors=True)


def _find_folder(session: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "toolcards" / "hooks" / hashlib.sha256(session.encode()).hexdigest()[:32]


def _digest(tool: str, arguments: Any) -> str:
    text = json.dumps([tool, arguments], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _remove_old_sessions(root: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # hooks run at the same time, and remove the same folders
        for folder in root.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if folder.stat().st_mtime < time.time() - LONGEST_SESSION:
                    shutil.rmtree(folder, ignore_errors=True)
