"""An MCP server behind the gateway, with a real client, and what the gate knows of its calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.clients import pip
from tests.support import gating
from tests.support.server import PATIENCE, ROOT, Server, until

AGENTS = Path(__file__).parent / "agents"


class Setup:
    """An MCP server behind the gateway, and the files that say what ran."""

    def __init__(self, server: Server, home: Path, kind: str, transport: str, *options: str) -> None:
        self.python, self.kind, self.log = str(pip.python("mcp", pip.MCP)), kind, home / "ran.jsonl"
        self.name = f"files-{os.urandom(3).hex()}"
        self.env = {"TOOLCARDS_URL": server.base, "TOOLCARDS_AGENT_KEY": server.key, "PYTHONPATH": str(ROOT)}
        self.processes: list[subprocess.Popen[str]] = []
        program = [self.python, str(AGENTS / "mcp_server.py"), kind, str(self.log)]
        gateway = [sys.executable, "-m", "toolcards", "mcp", "--server", self.name, *options]
        if transport == "stdio":
            self.plan: dict[str, Any] = {"command": [*gateway, "--", *program], "env": self.env}
            return
        port = free_port()
        self._start([*program, str(port)], "running on")
        address = f"http://127.0.0.1:{port}/mcp"
        line = self._start([*gateway, "--listen", "127.0.0.1:0", "--upstream", address], "Listening on")
        self.plan = {"url": line.rpartition(" ")[2].strip()}

    def _start(self, command: list[str], ready: str) -> str:
        process = subprocess.Popen(command, env=os.environ | self.env, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if ready in line:
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return line
        raise AssertionError(f"{command} ended")

    def play(self, client: str, *calls: Any, **more: Any) -> list[Any]:
        """Return what the client got for each call."""
        plan = json.dumps(self.plan | more | {"calls": calls})
        program = [self.python, str(AGENTS / "mcp_client.py"), client, plan]
        program_run = subprocess.run(
            program, capture_output=True, text=True, timeout=2 * PATIENCE, env=os.environ | self.env
        )
        assert program_run.returncode == 0, program_run.stderr[-3000:]
        results: list[Any] = json.loads(program_run.stdout.splitlines()[-1])
        return results

    def read_executions(self) -> list[Any]:
        """Return the arguments that tools ran with."""
        return [json.loads(line)["args"] for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait(PATIENCE)


def free_port() -> int:
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def find_calls(server: Server, name: str) -> list[dict[str, Any]]:
    """Return the calls of all runs whose tool belongs to this MCP server."""
    runs = server.get("/api/v1/runs")["runs"]
    calls = [call for run in runs for call in gating.calls(server, run["run"]).values()]
    return [call for call in calls if call["tool"].get("source") == name]


def wait_for_states(server: Server, setup: Setup, *states: str) -> list[dict[str, Any]]:
    """Return the calls of the MCP server once they are in these states, in any order."""

    def find() -> list[dict[str, Any]] | None:
        calls = find_calls(server, setup.name)
        return calls if sorted(call["state"] for call in calls) == sorted(states) else None

    run_calls: list[dict[str, Any]] = until(find)
    return run_calls
