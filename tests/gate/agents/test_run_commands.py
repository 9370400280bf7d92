"""The end of a run by an agent's request."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.gate.agents import run_commands
from toolcards.gate.writer import group_commit
from toolcards.models import Source

pytestmark = pytest.mark.django_db
SECRET = "Zx9vK3qLm7pR"


def test_the_reason_a_run_ended_for_is_kept_without_secrets(a_run: Any, source: Source) -> None:
    run = a_run("run-1")
    group_commit.execute(run_commands.EndRun(source, "run-1", "error", f"failed: PASSWORD={SECRET}"))
    run.refresh_from_db()
    assert run.reason.startswith("failed: PASSWORD=‹secret ")
