"""From nothing to a held and released call of the real Claude Code: a server, `connect claude-code`, and a prompt."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import claude as claude_code
from tests.clients import models
from tests.clients.claude import Claude
from tests.support import gating
from tests.support.server import PATIENCE, ROOT, Server, until
from toolcards.connect.probe import RUN_PREFIX

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]


class ReaderServer(Server):
    """A server that is read with a key that may read everybody's runs, for `connect` makes a source of its own."""

    reader = ""

    def request(self, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> Any:
        return super().request(method, path, body, key=key or self.reader, **headers)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server as it is on its first day: the starter policy, no agent."""
    data = tmp_path / "server"
    data.mkdir()
    with ReaderServer(data) as running:
        completed = running.manage("agentkey", "create", "reader", "--scopes", "read", "read:all")
        running.reader = completed.stdout.split()[-1]
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Iterator[claude_code.Place]:
    """A home where nothing was connected yet, and an empty project."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    model = models.anthropic(claude_code.SCRIPTS)
    yield claude_code.Place(home, project, model)
    model.close()


def test_two_commands_hold_and_release_a_call(server: Server, place: claude_code.Place) -> None:
    program = claude_code.program()
    result = connected(server, place.home, program)
    assert "The probe was held, approved and released." in result and "Without a server it runs nothing" in result

    claude = Claude(program, place).start("touch")
    assert gating.waiting(server, claude.session)["tool"]["name"] == "Bash"
    assert not (place.project / "ran.txt").exists()
    gating.vote(server, claude.session, "approve")
    report = claude.finish()
    assert (place.project / "ran.txt").exists(), report
    until(lambda: gating.calls(server, claude.session)["toolu_t"]["state"] == "output-available")

    server.stop()
    (place.project / "ran.txt").unlink()
    Claude(program, place).start("touch").finish()
    assert not (place.project / "ran.txt").exists()
    assert "nothing was run" in place.model.results["toolu_t"]


def connected(server: Server, home: Path, program: Path) -> str:
    """Type the second command, answer its question and its probe; the address is found and a key is made."""
    env = os.environ | {"HOME": str(home), "TOOLCARDS_DATA_DIR": str(server.data)}
    env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    env.pop("TOOLCARDS_URL", None)
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "connect", "claude-code"], env=env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdin is not None
        process.stdin.write("y\n")
        process.stdin.flush()
        gating.vote(server, probe(server), "approve")
        result, wrong = process.communicate(timeout=3 * PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, wrong
    return result


def probe(server: Server) -> str:
    """Return the probe's run, once it waits."""

    def look() -> Any:
        runs = server.get("/api/v1/runs?status=waiting")["runs"]
        return [run["run"] for run in runs if run["run"].startswith(RUN_PREFIX)]

    return str(until(look)[0])
