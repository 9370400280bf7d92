"""Workers: they end with their supervisor, and one that is lost is replaced."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from tests.support.server import Server, until
from tests.support.services import postgres, redis


def is_in_use(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


@pytest.mark.thorough
@pytest.mark.postgres
@pytest.mark.redis
def test_workers_end_with_their_supervisor_and_leave_the_port(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with (
        redis(tmp_path) as layer,
        postgres(tmp_path) as database,
        Server(folder, workers=2, redis_url=layer, database_url=database) as server,
    ):
        host, port = server.base.removeprefix("http://").split(":")
        server.kill()
        until(lambda: not is_in_use((host, int(port))))
        server.start()
        assert server.get("/healthz")


@pytest.mark.thorough
@pytest.mark.postgres
@pytest.mark.redis
def test_a_worker_that_was_killed_or_hangs_is_replaced_logged_and_counted(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with (
        redis(tmp_path) as layer,
        postgres(tmp_path) as database,
        Server(folder, workers=2, redis_url=layer, database_url=database) as server,
    ):
        killed_pid = find_worker(server)
        os.kill(killed_pid, signal.SIGKILL)
        until(lambda: read_last_end(folder) == (1, killed_pid, "was ended by SIGKILL"))
        warnings = server.get("/readyz")["warnings"]
        assert f"worker {killed_pid} was ended by SIGKILL" in warnings[0]["message"]
        hung_pid = find_worker(server)
        os.kill(hung_pid, signal.SIGSTOP)
        until(lambda: read_last_end(folder) == (2, hung_pid, "did not answer and was killed"))
        assert "toolcards_worker_restarts_total 2.0" in server.request("GET", "/metrics")[1]
        log_text = (folder / "server.log").read_text()
        assert f"worker {killed_pid} was ended by SIGKILL" in log_text and f"worker {hung_pid} did not" in log_text


def find_worker(server: Server) -> int:
    """Return the process that answers now."""
    match = re.search(r'toolcards_connections\{process="(\d+)"\}', server.request("GET", "/metrics")[1])
    assert match
    return int(match[1])


def read_last_end(folder: Path) -> tuple[int, int, str] | None:
    place = folder / "worker-ends.json"
    if not place.exists():
        return None
    ends = json.loads(place.read_text())
    return ends["count"], ends["pid"], ends["reason"]
