"""The two databases: copied while they are used, and replaced as a whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection

from tests.support.tables import loop_over
from toolcards.backup import stores
from toolcards.backup.archive import BackupError
from toolcards.backup.stores import Postgres, Sqlite


def count_rows(path: Path) -> int:
    with sqlite3.connect(path) as database:
        return int(database.execute("SELECT count(*) FROM t").fetchone()[0])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sqlite:
    """A store whose file is not there yet."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(Sqlite, "path", folder / "x.sqlite3")
    return Sqlite()


def test_a_copy_has_what_is_committed_and_is_one_file(store: Sqlite, tmp_path: Path) -> None:
    writer = sqlite3.connect(store.path, isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE t (x)")
    writer.execute("INSERT INTO t VALUES (1)")
    writer.execute("BEGIN")
    writer.execute("INSERT INTO t VALUES (2)")
    store.copy(tmp_path / "copy")
    writer.close()
    assert count_rows(tmp_path / "copy") == 1 and not [*tmp_path.glob("copy-*")]


def test_a_database_that_only_a_check_finds_damaged_is_not_copied_in_silence(store: Sqlite, tmp_path: Path) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as database:
        database.execute("CREATE TABLE t (x)")
        database.execute("CREATE INDEX i ON t (x)")
        row = database.execute("SELECT * FROM sqlite_master WHERE name = 'i'").fetchone()
        database.execute("PRAGMA writable_schema = ON")
        database.execute("DELETE FROM sqlite_master WHERE name = 'i'")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as database:
        database.execute("INSERT INTO t VALUES (1)")  # the index does not have it
        database.execute("PRAGMA writable_schema = ON")
        database.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    with pytest.raises(BackupError, match=r"is damaged: .*missing from index i"):
        store.copy(tmp_path / "copy")


def test_a_replaced_database_is_kept_with_its_newest_commits(store: Sqlite, tmp_path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        Path(f"{store.path}{ending}").write_text(f"old{ending}")
    (tmp_path / "source").write_text("new")
    old_path = Path(store.choose_place())
    store.replace(tmp_path / "source", str(old_path), lambda path: pytest.fail("SQLite needs no backup"))
    assert store.path.read_text() == "new" and ".before-restore-" in old_path.name
    assert [Path(f"{old_path}{ending}").read_text() for ending in ("", "-wal", "-shm")] == ["old", "old-wal", "old-shm"]
    assert len([*store.path.parent.iterdir()]) == 4


def test_where_there_was_no_database_nothing_is_kept(store: Sqlite, tmp_path: Path) -> None:
    assert not store.exists() and store.users() == ""
    (tmp_path / "source").write_text("new")
    assert store.choose_place() == ""
    store.replace(tmp_path / "source", "", lambda path: path)
    assert store.exists() and [*store.path.parent.iterdir()] == [store.path]


def test_the_store_is_that_of_the_settings() -> None:
    assert get_name() == connection.vendor and Sqlite.name != Postgres.name


def get_name() -> str:
    return stores.get_store().name


# ---------------------------------------------------------------- programs of PostgreSQL


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs of PostgreSQL, and no others on the PATH."""
    monkeypatch.setattr(stores, "_DEBIAN", tmp_path / "postgresql")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def write_program(path: Path, script: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_the_newest_version_of_a_program_is_used(programs: Path) -> None:
    with pytest.raises(BackupError, match=r"pg_dump is not installed here.*sudo apt install"):
        stores.find_program("pg_dump")
    write_program(programs / "bin" / "pg_dump")
    assert stores.find_program("pg_dump") == str(programs / "bin" / "pg_dump")
    for version in ("9.6", "16", "beta"):
        write_program(programs / "postgresql" / version / "bin" / "pg_dump")
    assert stores.find_program("pg_dump") == str(programs / "postgresql" / "16" / "bin" / "pg_dump")


@loop_over("version, number", [("16", 16.0), ("9.6", 9.6), ("beta", 0.0), ("", 0.0), ("9.6.1", 0.0), ("-1", 0.0)])
def test_a_folder_that_is_no_version_is_the_oldest(version: str, number: float) -> None:
    assert stores._parse_version(version) == number


@pytest.mark.parametrize(
    ("script", "quiet", "reason"),
    [
        ("echo one >&2; echo two >&2; exit 1", False, "pg_dump failed: one two"),
        ("echo one >&2; echo two >&2; exit 1", True, "pg_dump failed: one$"),
        ("exit 3", False, "pg_dump failed: it gave no reason"),
    ],
)
def test_a_program_that_fails_says_why(programs: Path, script: str, quiet: bool, reason: str) -> None:
    write_program(programs / "bin" / "pg_dump", script)
    with pytest.raises(BackupError, match=reason):
        stores._run_program("pg_dump", quiet=quiet)


def test_the_password_is_in_the_environment_and_not_among_the_words(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"NAME": "cards", "HOST": "db.example", "PORT": 5433, "USER": "ana", "PASSWORD": "secret"}
    for name, value in names.items():
        monkeypatch.setitem(connection.settings_dict, name, value)
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {"sslmode": "require", "sslcert": None, "other": "x"})
    write_program(programs / "bin" / "pg_dump", 'echo "$*|$PGDATABASE|$PGHOST|$PGPORT|$PGUSER|$PGPASSWORD|$PGSSLMODE"')
    assert stores._run_program("pg_dump", "--list").strip() == "--list|cards|db.example|5433|ana|secret|require"
    assert stores._get_parameters().keys() == {"dbname", "host", "port", "user", "password", "sslmode"}
