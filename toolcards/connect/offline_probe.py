"""What connected code does when no server is there: it is run against an address where nobody listens."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolcards.connect.base import program

MOST = 60  # seconds that it may take
_PYTHON = """
from toolcards.client import Toolcards
said = Toolcards(timeout=5).ask("away", "away", "probe", {}, seconds=5)
print("ran" if said.allowed else "denied: " + said.text)
"""


@contextmanager
def nobody() -> Iterator[str]:
    """Give an address that refuses connections for as long as this lasts."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def python(folder: Path) -> str:
    """Return what the client in this folder says with no server there; "" where it does not deny."""
    return _denied([sys.executable, "-c", _PYTHON], folder)


def node(folder: Path, program: str) -> str:
    """Return what a JavaScript program says that prints `denied: why`; "" where it does not, or there is no Node.js."""
    found = shutil.which("node")
    return _denied([found, "--input-type=module", "-e", program], folder) if found else ""


def hook(words: list[str]) -> str:
    """Return what our command hook says of a call with no server there; "" where it does not deny."""
    given = {"hook_event_name": "PreToolUse", "session_id": "away", "tool_use_id": "away", "tool_name": "probe"}
    text = json.dumps(given | {"tool_input": {}})
    with nobody() as url:
        command = [*program(), "hook", *words, "--url", url]
        try:
            done = subprocess.run(  # noqa: S603 - our own program
                command, input=text, capture_output=True, text=True, timeout=MOST
            )
            told = json.loads(done.stdout)["hookSpecificOutput"]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError):
            return ""
    return str(told["permissionDecisionReason"]) if told.get("permissionDecision") == "deny" else ""


def _denied(command: list[str], folder: Path) -> str:
    with nobody() as url:
        env = os.environ | {"TOOLCARDS_URL": url, "TOOLCARDS_AGENT_KEY": "nobody-asks", "PYTHONSAFEPATH": ""}
        env |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        try:
            done = subprocess.run(  # noqa: S603 - our own programs
                command, cwd=folder, env=env, capture_output=True, text=True, timeout=MOST
            )
        except (OSError, subprocess.SubprocessError):
            return ""
    said = done.stdout.strip().rpartition("\n")[2]
    return said.removeprefix("denied: ") if done.returncode == 0 and said.startswith("denied: ") else ""
