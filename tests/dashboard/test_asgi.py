"""What a start loads, and what it leaves to those who need it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.server import PATIENCE, ROOT
from tests.support.server import Server as Toolcards
from tests.support.voter import Voter

LOADED = """
import sys
from dashboard import asgi
from dashboard.management.commands import serve
print(*sorted({"daphne", "twisted.internet.reactor", "autobahn", "playwright", "pytest"} & set(sys.modules)))
"""


def test_a_start_loads_no_server_but_its_own() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert (completed.returncode, completed.stdout.strip()) == (0, ""), completed.stderr


def test_in_an_empty_folder_everything_is_made_and_the_admin_signs_in(tmp_path: Path) -> None:
    assert not any(tmp_path.iterdir())
    with Toolcards(tmp_path, bare=True) as server:
        assert "Sign out" in Voter(server).get("/")
        server.stop()
        server.start()  # what was made is found again
        assert "Sign out" in Voter(server).get("/") and server.get("/api/v1/runs")
