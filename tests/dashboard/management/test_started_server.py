"""What a server says when it is up: secrets are for terminals, and with JSON logs every line is JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.management.started_server import StartedServer
from tests.support.server import ROOT, until

LISTENING, PUBLIC = "http://127.0.0.1:1", "https://cards.example.com"
STARTED = StartedServer(LISTENING, PUBLIC, Path("/srv/data"), "http://a/login/link/x/", "tck_x")


def test_people_read_the_address_the_link_and_the_key() -> None:
    text = STARTED.to_text()
    assert all(part in text for part in (LISTENING, PUBLIC, "link/x/", "tck_x", "/srv/data"))


@pytest.mark.parametrize("has_terminal", [True, False])
def test_the_line_of_json_has_secrets_for_a_terminal_only(has_terminal: bool) -> None:
    line = STARTED.to_json(has_terminal=has_terminal)
    facts = json.loads(line)
    assert (facts["address"], facts["people"], facts["event"]) == (LISTENING, PUBLIC, "Toolcards is up")
    assert ("link/x/" in line, "tck_x" in line) == (has_terminal, has_terminal)
    assert "person link" in facts["sign_in"] or has_terminal


@pytest.mark.slow
def test_with_json_logs_every_line_of_a_server_is_json(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # which a check warns about
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCARDS_")}
    surroundings |= {"TOOLCARDS_LOG": "json", "TOOLCARDS_DATA_DIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    log = tmp_path / "log.txt"
    command = [sys.executable, str(ROOT / "manage.py"), "serve", "--port", "0"]
    with log.open("w") as output, subprocess.Popen(command, env=surroundings, stdout=output, stderr=output) as server:
        until(lambda: "Toolcards is up" in log.read_text())
        server.terminate()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert any("can read" in line["event"] for line in lines)
    assert "tck_" not in log.read_text() and "/login/link/" not in log.read_text()
