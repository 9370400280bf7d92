"""What was typed wrong is said in one line before anything is served: settings, ports, servers."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support import forge
from tests.support.server import PATIENCE, Server


def started(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    surroundings = os.environ | {"TOOLCARDS_DATA_DIR": str(folder)} | variables
    return forge.run(list(words), surroundings, 2 * PATIENCE)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TOOLCARDS_GRACE", "soon", "valid number"),
        ("TOOLCARDS_DEFAULT_EFFECT", "maybe", "'allow', 'ask' or 'deny'"),
        ("TOOLCARDS_ORIGINS", "cards.example.com", "https://cards.example.com"),
        ("TOOLCARDS_DATABASE_URL", "mysql://hidden@host/cards", "postgres://"),
        ("TOOLCARDS_DATABASE_URL", "hidden", "postgres://"),
        ("TOOLCARDS_AGUI_UPSTREAMS", "planner", "planner=https://"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_named_in_one_line(tmp_path: Path, name: str, value: str, text: str) -> None:
    completed = started(tmp_path, "serve", "--port", "0", **{name: value})
    assert completed.returncode == 1
    assert (
        completed.stderr.startswith(f"toolcards: {name}")
        and text in completed.stderr
        and completed.stderr.count("\n") == 1
    )
    assert "hidden" not in completed.stderr


def test_the_traceback_is_there_for_who_asks(tmp_path: Path) -> None:
    assert "Traceback" in started(tmp_path, "serve", "--traceback", TOOLCARDS_GRACE="soon").stderr


@pytest.mark.slow
@pytest.mark.parametrize("port", ["65536", "99999", "-1", "http"])
def test_a_port_that_there_is_not_is_refused_and_not_another_one_taken(tmp_path: Path, port: str) -> None:
    completed = started(tmp_path, "serve", f"--port={port}")
    assert completed.returncode == 2 and "not a port number from 0 to 65535" in completed.stderr, completed.stderr


def test_a_demo_for_no_address_says_so(tmp_path: Path) -> None:
    completed = started(tmp_path, "demo", "--url", "nonsense", "--key", "tck_x")
    assert (
        completed.returncode == 1
        and completed.stderr == "CommandError: 'nonsense' is not an address such as http://127.0.0.1:8000.\n"
    )


@pytest.mark.slow
def test_a_demo_for_a_server_that_is_not_there_ends_and_says_so(tmp_path: Path) -> None:
    with socket.socket() as port_holder:  # bound, without a listener
        port_holder.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{port_holder.getsockname()[1]}"
        completed = started(tmp_path, "demo", "--url", url, "--key", "tck_x")
    assert completed.returncode == 1 and f"cannot reach a server at {url}" in completed.stderr, completed.stderr


@pytest.mark.slow
def test_a_second_server_on_a_sqlite_folder_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        assert server.process is not None
        completed = started(
            tmp_path, "serve", f"--port={server.base.rpartition(':')[2]}"
        )  # more to the point than the port
        assert completed.returncode == 1 and "Traceback" not in completed.stderr
        assert f"Another server uses {tmp_path}: process {server.process.pid} at {server.base}" in completed.stderr
        assert server.manage("replay", "--check").returncode == 0  # commands can run next to a server
        server.kill()
        server.start()  # a lock ends with its process
        assert server.get("/api/v1/runs")


@pytest.mark.slow
def test_a_store_that_another_key_sealed_is_not_served(tmp_path: Path) -> None:
    with Server(tmp_path):
        pass
    key = (tmp_path / "secret_key").read_text()
    (tmp_path / "secret_key").unlink()
    without_key = started(tmp_path, "serve", "--port", "0")
    assert without_key.returncode == 1 and "another secret key" in without_key.stderr
    assert str(tmp_path / "secret_key") in without_key.stderr
    assert not [*tmp_path.glob("*secret_key*")]  # a new key would look like the right one
    wrong = started(tmp_path, "serve", "--port", "0", TOOLCARDS_SECRET_KEY="w" * 50)
    assert wrong.returncode == 1 and "than that of TOOLCARDS_SECRET_KEY" in wrong.stderr
    with Server(tmp_path, secret_key_fallbacks=key.strip()) as server:
        assert server.get("/readyz")


@pytest.mark.slow
def test_a_start_after_a_restore_that_was_killed_undoes_it_or_says_what_to_run(tmp_path: Path) -> None:
    with Server(tmp_path):
        pass
    keys = _read_keys(tmp_path / "toolcards.sqlite3")
    old = tmp_path / "toolcards.sqlite3.before-restore-1"
    (tmp_path / "toolcards.sqlite3").rename(old)
    note = tmp_path / "restore-unfinished.json"
    note.write_text("{")
    completed = started(tmp_path, "serve", "--port", "0")
    assert completed.returncode == 1 and "Run `toolcards restore` again" in completed.stderr
    assert not (tmp_path / "toolcards.sqlite3").exists()
    anchor = (tmp_path / "audit-anchor.json").read_text()
    note.write_text(json.dumps({"backup": "/b.tar", "old_database": str(old), "anchor": anchor, "key": ""}))
    with Server(tmp_path) as server:
        assert not note.exists() and not old.exists()
        assert keys and _read_keys(tmp_path / "toolcards.sqlite3") == keys
        assert server.manage("audit", "verify").returncode == 0


def _read_keys(database: Path) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT id FROM toolcards_agentkey").fetchall()
