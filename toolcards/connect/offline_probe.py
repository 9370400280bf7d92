"""Runs connected code against an address that refuses connections, to show that it denies calls."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolcards.connect.base import find_command

TIMEOUT = 60  # seconds
_PYTHON = """
from toolcards.client import Toolcards
decision = Toolcards(timeout=5).ask("away", "away", "probe", {}, seconds=5)
print("ran" if decision.allowed else "denied: " + decision.text)
"""
_MCP_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": [], "content": []}}), flush=True)
"""


@contextmanager
def reserve_dead_address() -> Iterator[str]:
    """Yield an address that refuses connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def run_python(folder: Path) -> str:
    """Return the denial of the client in this folder.

    "" if it does not deny.
    """
    return _run_program([sys.executable, "-c", _PYTHON], folder)


def run_node(folder: Path, program: str) -> str:
    """Return the denial that a JavaScript program prints as `denied: why`.

    "" if none, or without Node.js.
    """
    node = shutil.which("node")
    return _run_program([node, "--input-type=module", "-e", program], folder) if node else ""


def run_hook(words: list[str], event: str = "PreToolUse") -> str:
    """Return the denial that our command hook gives for this event.

    "" if it does not deny.
    """
    call = {"tool_use_id": "away", "tool_name": "probe", "toolName": "probe", "tool_input": {}, "toolArgs": {}}
    call |= {"conversation_id": "away", "command": "away", "tool_call": {"id": "away", "name": "probe", "input": {}}}
    events = {"hook_event_name": event, "hookName": event, "event": event}
    text = json.dumps({**events, "session_id": "away", "sessionId": "away", "taskId": "away", **call})
    with reserve_dead_address() as url:
        command = [*find_command(), "hook", *words, "--url", url]
        try:
            process = subprocess.run(  # noqa: S603 - our own program
                command, input=text, capture_output=True, text=True, timeout=TIMEOUT
            )
            output = json.loads(process.stdout)
        except (OSError, subprocess.SubprocessError, ValueError):
            return ""
    specific = output.get("hookSpecificOutput", output) if isinstance(output, dict) else output
    if not isinstance(specific, dict):
        return ""
    decisions = {specific.get(name) for name in ("permissionDecision", "decision", "permission")}
    denies = bool(decisions & {"deny", "block"}) or specific.get("cancel") is True
    reasons = (specific.get(name) for name in ("permissionDecisionReason", "reason", "agent_message", "errorMessage"))
    return str(next(filter(None, reasons), "")) if denies else ""


def run_mcp() -> str:
    """Return the denial that the MCP gateway gives for any server.

    "" if it does not deny.
    """
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "probe", "arguments": {}}}
    with reserve_dead_address() as url:
        command = [*find_command(), "mcp", "--url", url, "--key", "away", "--", sys.executable, "-c", _MCP_SERVER]
        try:
            with subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as process:
                timer = threading.Timer(TIMEOUT, process.kill)
                timer.start()
                assert process.stdin is not None and process.stdout is not None
                try:
                    process.stdin.write(json.dumps(call) + "\n")
                    process.stdin.flush()
                    result = json.loads(process.stdout.readline())["result"]
                    denial = str(result["content"][0]["text"]) if result.get("isError") is True else ""
                    process.stdin.close()
                finally:
                    timer.cancel()
        except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError, AttributeError):
            return ""
    return denial


def _run_program(command: list[str], folder: Path) -> str:
    with reserve_dead_address() as url:
        env = os.environ | {"TOOLCARDS_URL": url, "TOOLCARDS_AGENT_KEY": "nobody-asks", "PYTHONSAFEPATH": ""}
        env |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        try:
            process = subprocess.run(  # noqa: S603 - our own programs
                command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT
            )
        except (OSError, subprocess.SubprocessError):
            return ""
    last_line = process.stdout.strip().rpartition("\n")[2]
    has_denied = process.returncode == 0 and last_line.startswith("denied: ")
    return last_line.removeprefix("denied: ") if has_denied else ""
