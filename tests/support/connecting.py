"""The command `connect`, its targets, and votes on its probes."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

from django.core.management import call_command

from tests.support import gating
from tests.support.server import Server, until
from toolcards import connect
from toolcards.connect import probe as probing

ROOT = Path(__file__).parents[2]
CLAUDE, OPENCODE = connect.get_recipe("claude-code"), connect.get_recipe("opencode")


def ran(*words: str) -> str:
    out = io.StringIO()
    call_command("connect", *words, stdout=out)
    return out.getvalue()


def start_voter(server: Server, decision: str) -> threading.Thread:
    """Start a thread that answers the probe as soon as it waits."""

    def look() -> Any:
        runs = server.get("/api/v1/runs?status=waiting")["runs"]
        return [run["run"] for run in runs if run["run"].startswith(probing.RUN_PREFIX)]

    somebody = threading.Thread(target=lambda: gating.vote(server, until(look)[0], decision))
    somebody.start()
    return somebody


def tree(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}
