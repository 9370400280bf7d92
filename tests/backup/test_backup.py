"""Backups as the operations page describes them: made while the server runs, checked, restored, and visible."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import ROOT, Server, migrated
from tests.support.services import postgres
from toolcards import __version__
from toolcards.backup import BackupError, check

PAGE = (ROOT / "docs/operations.md").read_text()
SECTION = PAGE.split("## Back up and restore")[1].split("\n## ")[0]


def commands(nth: int, place: Path) -> list[list[str]]:
    """The commands of the section's nth block, with our folder in place of the page's."""
    block = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)[nth]
    entries = [shlex.split(line.split("#")[0].replace("/backup", str(place))) for line in block.strip().splitlines()]
    assert all(words[0] == "toolcards" for words in entries)
    return [words[1:] for words in entries]


def tell(server: Server, run: str, texts: int = 3) -> None:
    frames = "".join(json.dumps({"type": "text.delta", "text": f"[{n}]"}) + "\n" for n in range(texts))
    path = f"/api/v1/ingest?protocol=native&run={run}"
    status, body, _ = server.request("POST", path, frames, Content_Type="application/x-ndjson")
    assert status == 200, body


def runs(server: Server) -> set[str]:
    return {run["run"] for run in server.get("/api/v1/runs")["runs"]}


def run_command(server: Server, *command: str) -> str:
    completed = server.manage(*command)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def run_refused_command(server: Server, *command: str) -> str:
    completed = server.manage(*command)
    assert completed.returncode and "Traceback" not in completed.stderr, completed.stdout + completed.stderr
    return completed.stderr


def check_the_page(server: Server, folder: Path) -> None:
    """Do what the page says, in its order: back up, go on, stop, restore, start, verify."""
    folder.mkdir()
    tell(server, "before")
    for command in commands(0, folder):
        run_command(server, *command)
    backup = next(folder.iterdir())
    assert backup.stat().st_mode & 0o777 == 0o600
    tell(server, "after")
    server.stop()
    restore, *rest = commands(1, folder)
    result = run_command(server, *restore)
    assert "The old database is in" in result and "Changes since the backup are undone" in result
    for command in rest:
        assert "Audit trail intact" in run_command(server, *command)
    server.start()
    assert runs(server) == {"before"}
    exported = [json.loads(line) for line in run_command(server, "audit", "export").splitlines()]
    row = next(row for row in exported if row["act"] == "trail.restored")
    assert row["actor"] == "ana" and row["detail"]["backup_made_at"] and not row["detail"]["fault"]
    tell(server, "again")


@pytest.mark.slow
def test_a_backup_of_a_running_server_is_restored_as_the_page_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with Server(data) as server:
        check_the_page(server, tmp_path / "backup")
        old_databases = list(data.glob("toolcards.sqlite3.before-restore-*[0-9]"))
        assert len(old_databases) == 1
        with sqlite3.connect(old_databases[0]) as old:
            assert old.execute("SELECT count(*) FROM toolcards_run").fetchone() == (2,)


@pytest.mark.thorough
@pytest.mark.postgres
def test_postgresql_is_backed_up_and_restored_as_the_page_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with postgres(tmp_path, migrated=False) as url, Server(data, database_url=url) as server:
        check_the_page(server, tmp_path / "backup")


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """A server with data that does not run."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    shutil.copyfile(migrated(), data / "toolcards.sqlite3")
    return Server(data)


def test_what_would_destroy_something_is_refused(tmp_path: Path, server: Server) -> None:
    backup = tmp_path / "good.tar"
    run_command(server, "backup", str(backup))
    good = backup.read_bytes()
    assert "--force" in run_refused_command(server, "restore", str(backup))
    with (server.data / "server.lock").open("a") as lock:  # as a server that runs holds it
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "A server uses" in run_refused_command(server, "restore", str(backup), "--force")
    with (server.data / "toolcards.sqlite3").open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 8))
    run_refused_command(server, "backup", str(backup))
    assert backup.read_bytes() == good and sorted(tmp_path.iterdir()) == sorted([server.data, backup])
    check(backup)
    backup.write_bytes(good[:-20_000] + bytes([good[-20_000] ^ 1]) + good[-19_999:])
    with pytest.raises(BackupError, match="damaged"):
        check(backup)
    backup.write_text("no backup")
    with pytest.raises(BackupError, match="not a backup"):
        check(backup)
    with pytest.raises(BackupError, match="File not found"):
        check(tmp_path / "nothing.tar")


def test_a_backup_without_its_key_is_refused_and_one_with_it_warns(tmp_path: Path, server: Server) -> None:
    elsewhere, backup = tmp_path / "elsewhere", tmp_path / "backup.tar"
    elsewhere.mkdir(mode=0o700)
    completed = server.manage("backup", "--with-key", str(backup))
    assert completed.returncode == 0 and "contains the secret key" in completed.stderr
    assert f"Toolcards {__version__}, " in completed.stdout
    there = Server(elsewhere)
    assert "--with-key" in run_refused_command(there, "restore", str(backup))
    fingerprint = completed.stdout.split("Fingerprint: ")[1].strip()
    wrong = ("--fingerprint", fingerprint[::-1])
    assert "does not have this fingerprint" in run_refused_command(there, "restore", "--with-key", *wrong, str(backup))
    with_fingerprint = there.manage("restore", "--with-key", "--fingerprint", fingerprint, str(backup))
    without_fingerprint = there.manage("restore", "--with-key", "--force", str(backup))
    assert (with_fingerprint.returncode, without_fingerprint.returncode) == (0, 0)
    assert "nothing proves" not in with_fingerprint.stderr and "nothing proves" in without_fingerprint.stderr
    assert (elsewhere / "secret_key").read_text() == (server.data / "secret_key").read_text()
    run_command(there, "audit", "verify")


def change(backup: Path, **changes: Any) -> None:
    """Change the manifest of a backup."""
    with tarfile.open(backup) as archive:
        parts = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    parts["manifest.json"] = json.dumps(json.loads(parts["manifest.json"]) | changes).encode()
    with tarfile.open(backup, "w") as archive:
        for name, content in parts.items():
            (backup.parent / "part").write_bytes(content)
            archive.add(backup.parent / "part", name)


@pytest.mark.slow
def test_a_backup_of_an_older_version_is_migrated_and_one_of_a_newer_is_named(tmp_path: Path, server: Server) -> None:
    backup = tmp_path / "backup.tar"
    run_command(server, "migrate", "toolcards", "0006")
    run_command(server, "backup", str(backup))
    assert "secret_key" not in check(backup).parts
    run_command(server, "restore", str(backup), "--force")
    with sqlite3.connect(server.data / "toolcards.sqlite3") as database:
        applied = {name for (name,) in database.execute("SELECT name FROM django_migrations WHERE app = 'toolcards'")}
    assert applied == {path.stem for path in (ROOT / "toolcards/migrations").glob("0*.py")}
    change(backup, version="9.9", migrations=["toolcards.9999_later"])
    assert "newer Toolcards (9.9)" in run_refused_command(server, "restore", str(backup), "--force")
    change(backup, format=2)
    with pytest.raises(BackupError, match="Install that version"):
        check(backup)
