"""`toolcards mcp` and clients of the official TypeScript SDKs, with their own time limit of 60 seconds.

Of `@modelcontextprotocol/sdk` (protocol 2025-11-25), a model calls again; `@modelcontextprotocol/client` (2026-07-28)
repeats the call itself, so that its model waits for one result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import npm
from tests.clients.mcp_setup import Setup, find_calls, wait_for_states
from tests.clients.nodeapp import App
from tests.support import gating
from tests.support.server import Server

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
PACKAGES = {
    "sdk": {"modelcontextprotocol__sdk": "1.32.2"},
    "client": {"modelcontextprotocol__client": "2.4.0"},
}
VERSIONS = {"sdk": "", "client": "2026-07-28"}
LONGER_THAN_THE_CLIENT_WAITS = 65.0  # seconds


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="delete_file", field="/path"))
        yield running


def start(setup: Setup, kind: str, folder: Path) -> App:
    folder.mkdir()
    app = App(npm.installed(f"mcp-{kind}", **PACKAGES[kind]), "mcp.mjs", folder)
    return app.start(kind, **setup.plan, tool="delete_file", args={"path": "echo ask"})


@pytest.mark.parametrize("kind", PACKAGES)
@pytest.mark.parametrize("vote", ["approve", "deny"])
def test_an_answer_after_the_limit_of_the_gateway_counts(server: Server, tmp_path: Path, kind: str, vote: str) -> None:
    setup = Setup(server, tmp_path, "sdk", "stdio", "--answer-within", "0.5")
    app = start(setup, kind, tmp_path / "app")
    (call,) = wait_for_states(server, setup, "approval-requested")
    time.sleep(2)
    gating.vote(server, call["run"], vote, reason="Keep it." if vote == "deny" else "")
    result = app.finish()
    assert result["isError"] == (vote == "deny") and result["version"] == VERSIONS[kind], result
    assert ("Keep it." if vote == "deny" else "deleted echo ask") in result["text"]
    assert (result["calls"] == 1) == (kind == "client"), "the model of a client with states waits for one result"
    assert len(find_calls(server, setup.name)) == 1 and len(setup.read_executions()) == (vote == "approve")


@pytest.mark.parametrize("kind", PACKAGES)
def test_an_approval_after_the_limit_of_the_client_counts(server: Server, tmp_path: Path, kind: str) -> None:
    setup = Setup(server, tmp_path, "sdk", "stdio")
    app = start(setup, kind, tmp_path / "app")
    (call,) = wait_for_states(server, setup, "approval-requested")
    time.sleep(LONGER_THAN_THE_CLIENT_WAITS)
    gating.vote(server, call["run"], "approve")
    result = app.finish()
    assert (result["text"], result["isError"]) == ("deleted echo ask", False)
    assert len(setup.read_executions()) == 1
