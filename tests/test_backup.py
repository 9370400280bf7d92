"""Backups as the operations page describes them: made while the server runs, checked, restored, and visible."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.services import postgres
from tests.serving import ROOT, Server

PAGE = (ROOT / "docs/operations.md").read_text()
SECTION = PAGE.split("## Backup and restore")[1].split("\n## ")[0]


def commands(nth: int, place: Path) -> list[list[str]]:
    """The commands of the section's nth block, with our folder in place of the page's."""
    block = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)[nth]
    found = [shlex.split(line.split("#")[0].replace("/backup", str(place))) for line in block.strip().splitlines()]
    assert all(words[0] == "toolcards" for words in found)
    return [words[1:] for words in found]


def tell(server: Server, run: str, texts: int = 3) -> None:
    frames = "".join(json.dumps({"type": "text.delta", "text": f"[{n}]"}) + "\n" for n in range(texts))
    path = f"/api/v1/ingest?protocol=native&run={run}"
    status, said, _ = server.request("POST", path, frames, Content_Type="application/x-ndjson")
    assert status == 200, said


def runs(server: Server) -> set[str]:
    return {run["run"] for run in server.get("/api/v1/runs")["runs"]}


def done(server: Server, *command: str) -> str:
    ended = server.manage(*command)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def refused(server: Server, *command: str) -> str:
    ended = server.manage(*command)
    assert ended.returncode and "Traceback" not in ended.stderr, ended.stdout + ended.stderr
    return ended.stderr


def check_the_page(server: Server, folder: Path) -> None:
    """Do what the page says, in its order: back up, go on, stop, restore, start, verify."""
    folder.mkdir()
    tell(server, "before")
    for command in commands(0, folder):
        done(server, *command)
    backup = next(folder.iterdir())
    assert backup.stat().st_mode & 0o777 == 0o600
    tell(server, "after")
    server.stop()
    restore, *rest = commands(1, folder)
    said = done(server, *restore)
    assert "is kept in" in said and "Changes since the backup are undone" in said
    for command in rest:
        assert "The audit trail is whole" in done(server, *command)
    server.start()
    assert runs(server) == {"before"}
    row = json.loads(done(server, "audit", "export").splitlines()[-1])
    exported = [json.loads(line) for line in done(server, "audit", "export").splitlines()]
    row = next(row for row in exported if row["act"] == "trail.restored")
    assert row["actor"] == "ana" and row["detail"]["backup_made_at"] and not row["detail"]["fault"]
    done(server, "audit", "verify")
    done(server, "replay", "--check")
    tell(server, "again")


def test_a_backup_of_a_running_server_is_restored_as_the_page_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with Server(data) as server:
        check_the_page(server, tmp_path / "backup")
        kept = list(data.glob("toolcards.sqlite3.before-restore-*[0-9]"))
        assert len(kept) == 1
        with sqlite3.connect(kept[0]) as old:
            assert old.execute("SELECT count(*) FROM toolcards_run").fetchone() == (2,)


@pytest.mark.postgres
def test_postgresql_is_backed_up_and_restored_as_the_page_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with postgres(tmp_path) as url, Server(data, database_url=url) as server:
        check_the_page(server, tmp_path / "backup")


def test_what_would_destroy_something_is_refused(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "good.tar"
    data.mkdir()
    with Server(data) as server:
        tell(server, "one")
        assert "A server uses" in refused(server, "restore", str(backup)) or not backup.exists()
        done(server, "backup", str(backup))
        good = backup.read_bytes()
        assert "--force" in refused(server, "restore", str(backup)) or server.process
        server.stop()
        assert "--force" in refused(server, "restore", str(backup))
        spoiled = tmp_path / "spoiled.tar"
        spoiled.write_bytes(good[:-20_000] + bytes([good[-20_000] ^ 1]) + good[-19_999:])
        assert "damaged" in refused(server, "restore", str(spoiled), "--force")
        assert "damaged" in refused(server, "backup", "--check", str(spoiled))
        other = tmp_path / "other.tar"
        other.write_text("no backup")
        assert "no backup" in refused(server, "restore", str(other), "--force")
        assert "There is no file" in refused(server, "restore", str(tmp_path / "nothing.tar"), "--force")
        assert "There is no folder" in refused(server, "backup", str(tmp_path / "nowhere" / "x.tar"))
        damage(data)
        refused(server, "backup", str(backup))
        assert backup.read_bytes() == good and sorted(tmp_path.iterdir()) == sorted({data, backup, spoiled, other})


def damage(data: Path) -> None:
    """Overwrite pages in the middle of the database."""
    database = data / "toolcards.sqlite3"
    with database.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 8))


def test_a_backup_without_its_key_is_refused_and_one_with_it_warns(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    plain, whole = tmp_path / "plain.tar", tmp_path / "whole.tar"
    data.mkdir()
    elsewhere.mkdir()
    with Server(data) as server:
        tell(server, "one")
        done(server, "backup", str(plain))
        made = server.manage("backup", "--with-key", str(whole))
        assert made.returncode == 0 and "holds the secret key" in made.stderr
    assert "secret_key" not in tarfile.open(plain).getnames()
    there = Server(elsewhere)
    assert "is not here" in refused(there, "restore", str(plain))
    assert "--with-key" in refused(there, "restore", str(whole))
    done(there, "restore", "--with-key", str(whole))
    with there:
        assert runs(there) == {"one"}
        done(there, "audit", "verify")


def manifest(backup: Path, **changes: Any) -> None:
    """Change the manifest of a backup."""
    with tarfile.open(backup) as archive:
        parts = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    parts["manifest.json"] = json.dumps(json.loads(parts["manifest.json"]) | changes).encode()
    with tarfile.open(backup, "w") as archive:
        for name, content in parts.items():
            (backup.parent / "part").write_bytes(content)
            archive.add(backup.parent / "part", name)


def test_a_backup_of_a_newer_version_names_it(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "newer.tar"
    data.mkdir()
    with Server(data) as server:
        done(server, "backup", str(backup))
    manifest(backup, version="9.9", migrations=["toolcards.9999_later"])
    assert "newer Toolcards (9.9)" in refused(server, "restore", str(backup), "--force")
    manifest(backup, format=2)
    assert "Install that version" in refused(server, "restore", str(backup), "--force")
