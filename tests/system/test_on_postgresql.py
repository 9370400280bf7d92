"""The writer keeps its promises on PostgreSQL too: tests that run on SQLite, again in a process of their own.

They are those whose outcome could depend on the database: bodies that break off and come again, frames while plugins
are asked, works while the database fails, transactions, repeated requests, undo against fetch, grants, answers of
reviewers, and floods on a socket.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import PATIENCE, ROOT
from tests.support.services import postgres

pytestmark = [pytest.mark.postgres, pytest.mark.sweep]
MODULES = [
    "tests/transports/agents/test_ingest_bodies.py",
    "tests/gate/writer/test_faults.py",
    "tests/gate/writer/test_attempt.py",
    "tests/gate/writer/test_transaction.py",
    "tests/gate/agents/test_idempotency.py",
    "tests/gate/approvals/test_revocation.py",
    "tests/gate/decisions/test_grants.py",
    "tests/gate/questions/test_review_answers.py",
]
FLOODS = "tests/transports/agents/test_agent_socket.py"


def test_the_writer_keeps_its_promises_on_postgresql(tmp_path: Path) -> None:
    ours = ("PYTEST_", "TOOLCARDS_", "DJANGO_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    chosen = "not server and (flood or wait or not test_agent_socket)"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *MODULES, FLOODS]
    with postgres(tmp_path) as url:
        env["TOOLCARDS_DATABASE_URL"] = url
        completed = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=9 * PATIENCE)
    assert completed.returncode == 0, completed.stdout[-5000:] + completed.stderr[-2000:]
