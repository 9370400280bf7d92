"""Frameworks that have no module of ours, with `@gated` functions as their tools, in the block of one run.

Each test runs the framework's real agent loop in a process of its own: see agents/gated_function.py.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import pip
from tests.support import gating
from tests.support.server import PATIENCE, Server

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
PROGRAM = Path(__file__).parent / "agents" / "gated_function.py"
FRAMEWORKS = {"smolagents": pip.GATED, "mcp": pip.GATED, "adk": pip.GATED, "crewai": pip.CREWAI}
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="delete_file", field="/path"))
        yield running


def played(url: str, key: str, home: Path, framework: str, scenario: str) -> tuple[str, dict[str, Any]]:
    """Return the run's name, and what the program printed."""
    packages, run = FRAMEWORKS[framework], f"{framework}-{secrets.token_hex(3)}"
    python = pip.python("crewai" if packages is pip.CREWAI else "gated", packages)
    env = {"HOME": str(home), "PYTHONPATH": str(PROGRAM.parents[3]), "TOOLCARDS_URL": url, "TOOLCARDS_AGENT_KEY": key}
    completed = subprocess.run(
        [str(python), str(PROGRAM), framework, scenario, run], env=env | QUIET, capture_output=True, text=True,
        timeout=6 * PATIENCE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr[-2000:]
    return run, json.loads(completed.stdout.splitlines()[-1])


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("scenario", ["ok", "deny"])
def test_a_gated_function_is_judged_once_in_a_named_run_that_ends(
    server: Server, tmp_path: Path, framework: str, scenario: str
) -> None:
    run, result = played(server.base, server.key, tmp_path, framework, scenario)
    response = server.get(f"/api/v1/runs/{run}")
    assert (response["agent"], response["status"]) == ("scribe", "finished")
    (card,) = gating.calls(server, run).values()
    assert card["tool"]["name"] == "delete_file"
    if scenario == "ok":
        assert (result["ran"], card["state"]) == (["a.txt"], "output-available") and "deleted" in result["seen"]
    else:
        assert (result["ran"], card["state"]) == ([], "output-denied") and "Not allowed here." in result["seen"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_without_a_server_the_tool_does_not_run_and_the_model_reads_why(tmp_path: Path, framework: str) -> None:
    _, result = played("http://127.0.0.1:9", "tck_none", tmp_path, framework, "ok")
    assert result["ran"] == [] and "gave no decision" in result["seen"]
