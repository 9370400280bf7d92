"""Real Python packages at the versions that were read: installed once into a folder that git does not see."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.clients import versions
from tests.clients.npm import CACHE

# One environment for all three: they agree on what they share.
PACKAGES = {
    "pydantic-ai-slim": "2.68.0",
    "langchain": "1.4.7",
    "langgraph": "1.2.22",
    "langchain-core": "1.7.2",
    "openai-agents": "0.24.0",
}
# The AG-UI servers of two of them, apart: they bring a web framework along.
AG_UI = {
    "pydantic-ai-slim[ag-ui]": "2.68.0",
    "ag-ui-langgraph": "0.0.47",
    "langchain": "1.4.7",
    "langgraph": "1.2.22",
    "fastapi": "",
    "uvicorn": "",
}
# Those that have no module of ours: their tools are functions with `@gated`. CrewAI is large, so it is apart.
GATED = {"smolagents": "1.26.0", "mcp": "2.3.0", "google-adk": "2.13.0"}
MCP = {"mcp": "2.3.0", "fastmcp": "4.1.2"}
CREWAI = {"crewai": "1.15.30"}
# It brings a Claude Code of its own.
CLAUDE_AGENT = {"claude-agent-sdk": "0.2.184"}


def python(name: str = "python", packages: dict[str, str] | None = None) -> Path:
    """Return the Python of an environment that has the packages, making it if need be; "" for any version."""
    pins = packages or PACKAGES
    expected = versions.choose(name, pins)
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        completed = folder / "installed.json"
        program = folder / "venv" / "bin" / "python"
        if not completed.exists() or json.loads(completed.read_text()) != expected:
            _install(folder / "venv", program, expected)
            versions.note(folder, pins, {package: _version(program, package) for package in pins})
            completed.write_text(json.dumps(expected))
    return program


def _install(venv: Path, program: Path, packages: dict[str, str]) -> None:
    expected = [
        f"{name}=={version}" if version not in ("", versions.LATEST) else name for name, version in packages.items()
    ]
    pip = [str(program), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", "--clear", str(venv)], [*pip, *expected]):
        run = subprocess.run(command, capture_output=True, text=True, timeout=900, env=os.environ | {"PYTHONPATH": ""})
        if run.returncode:
            raise AssertionError(f"{command} failed: {run.stderr[-2000:]}")


def _version(program: Path, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package.partition('[')[0]!r}))"
    return subprocess.run([program, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
