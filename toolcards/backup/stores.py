"""The two databases: copying each while it is in use, and replacing it while it is not."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings
from django.db import connection, connections

from toolcards.backup.archive import DATABASE, BackupError, unpack

_DEBIAN = Path("/usr/lib/postgresql")


class Store(Protocol):
    """A database that can be copied into a file, and replaced by one."""

    name: str

    def copy(self, target: Path) -> None:
        """Write what is committed now into the target, and check it."""

    def exists(self) -> bool:
        """Return whether there is a database with tables."""

    def users(self) -> str:
        """Return the other users of the database, "" for none."""

    def choose_place(self) -> str:
        """Return where `replace` keeps the old database, "" without one."""

    def replace(self, source: Path, old_database: str, back_up: Callable[[Path], Path]) -> None:
        """Replace the database, and keep the old one at that place.

        `back_up` makes a backup of a database that is no file.
        """

    def put_back(self, old_database: str) -> None:
        """Undo `replace`, also one that was killed midway."""

    def put_back_unfinished(self, old_database: str) -> bool:
        """Undo a killed `replace`; return whether the database is the old one."""


def get_store() -> Store:
    """Return the store that the settings name."""
    return Sqlite() if connection.vendor == "sqlite" else Postgres()


class Sqlite:
    """A file; SQLite copies it page by page in one read transaction."""

    name = "sqlite"

    @property
    def path(self) -> Path:
        """The database's file."""
        return Path(connection.settings_dict["NAME"])

    def copy(self, target: Path) -> None:
        """Write what is committed now into the target, and check it."""
        try:
            with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a second one next to it
                integrity = copy.execute("PRAGMA integrity_check").fetchone()[0]
        except sqlite3.Error as error:
            raise BackupError(f"SQLite cannot copy {self.path}: {error}.") from error
        if integrity != "ok":
            raise BackupError(f"The database {self.path} is damaged: {integrity}.")

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self.path.exists()

    def users(self) -> str:
        """Return "": the lock in the data directory covers the file."""
        return ""

    def choose_place(self) -> str:
        """Return the name that the old file will have."""
        return str(self.path.with_name(f"{self.path.name}.before-restore-{format_stamp()}")) if self.exists() else ""

    def replace(self, source: Path, old_database: str, back_up: Callable[[Path], Path]) -> None:
        """Rename the old files and put the source in their place."""
        connections.close_all()
        for ending in ("-wal", "-shm", ""):  # the newest commits are in the first
            old = self.path.with_name(self.path.name + ending)
            if old_database and old.exists():
                old.replace(old_database + ending)
        source.replace(self.path)

    def put_back(self, old_database: str) -> None:
        """Remove the database, and give the old files their names again.

        The file itself is the last that `replace` renames and the first that comes back. So the others next to it are
        the new database's as long as the old file is away, however often this is killed.
        """
        endings = ("", "-wal", "-shm")
        if old_database and not any(Path(old_database + ending).exists() for ending in endings):
            return  # nothing was renamed
        connections.close_all()
        current = self.path
        if not old_database or Path(old_database).exists():
            for ending in ("-wal", "-shm"):
                current.with_name(current.name + ending).unlink(missing_ok=True)
        if not old_database:
            current.unlink(missing_ok=True)
            return
        for ending in endings:
            if (old := Path(old_database + ending)).exists():
                old.replace(current.with_name(current.name + ending))

    def put_back_unfinished(self, old_database: str) -> bool:
        """Put the old files back."""
        self.put_back(old_database)
        return True


class Postgres:
    """A server; its own programs copy and restore."""

    name = "postgresql"

    def copy(self, target: Path) -> None:
        """Write what is committed now into the target, and check it."""
        _run_program("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}")
        _run_program("pg_restore", "--list", str(target), quiet=True)

    def exists(self) -> bool:
        """Return whether the database has our tables."""
        return "toolcards_run" in connection.introspection.table_names()

    def users(self) -> str:
        """Return how many other sessions use the database."""
        import psycopg  # SQLite needs none

        _close_sessions()
        parameters: dict[str, Any] = dict(_get_parameters())
        with psycopg.connect(**parameters) as session:
            row = session.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchone()
        return f"{row[0]} sessions of PostgreSQL" if row and row[0] else ""

    def choose_place(self) -> str:
        """Return the name that the backup of the old tables will have."""
        return str(_get_data_dir() / f"before-restore-{format_stamp()}.tar") if self.exists() else ""

    def replace(self, source: Path, old_database: str, back_up: Callable[[Path], Path]) -> None:
        """Back up the old tables, then replace them in one transaction."""
        if old_database:
            back_up(Path(old_database))
        self._remove_newer(source)
        _close_sessions()
        _run_program("pg_restore", *_RESTORE, "--dbname", str(connection.settings_dict["NAME"]), str(source))

    def put_back_unfinished(self, old_database: str) -> bool:
        """Return whether the backup of the old tables was still being written."""
        return bool(old_database) and not Path(old_database).exists()

    def put_back(self, old_database: str) -> None:
        """Restore the backup of the old tables, if there were any."""
        if not old_database:
            return
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=_get_data_dir()) as scratch:
            source = Path(scratch) / DATABASE
            unpack(Path(old_database), DATABASE, source)
            self._remove_newer(source)
            _close_sessions()
            _run_program("pg_restore", *_RESTORE, "--dbname", str(connection.settings_dict["NAME"]), str(source))

    def _remove_newer(self, source: Path) -> None:
        """Remove tables that the backup does not have: pg_restore replaces only those that it has."""
        listing = _run_program("pg_restore", "--list", str(source), quiet=True)
        backed_up = {line.split(" TABLE ")[1].split()[1] for line in listing.splitlines() if " TABLE public " in line}
        newer = set(connection.introspection.table_names()) - backed_up
        with connection.schema_editor() as editor:
            for table in newer:
                editor.execute(editor.sql_delete_table % {"table": editor.quote_name(table)})


_RESTORE = ["--clean", "--if-exists", "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]


def _close_sessions() -> None:
    """Close our own sessions, including those of the pool."""
    connections.close_all()
    connection.close_pool()  # type: ignore[attr-defined]


def find_program(name: str) -> str:
    """Return the path of a PostgreSQL program; raises BackupError."""
    newest = sorted(_DEBIAN.glob(f"*/bin/{name}"), key=lambda path: _parse_version(path.parts[-3]), reverse=True)
    path = str(newest[0]) if newest else shutil.which(name)
    if not path:
        hint = "On Debian: sudo apt install postgresql-client"
        raise BackupError(f"{name} is not installed here, or not on the PATH. {hint}.")
    return path


def _parse_version(version: str) -> float:
    return float(version) if version.replace(".", "", 1).isdecimal() else 0.0


def _run_program(name: str, *arguments: str, quiet: bool = False) -> str:
    """Run a PostgreSQL program on our database; return its output."""
    result = subprocess.run([find_program(name), *arguments], env=_build_environment(), capture_output=True, text=True)  # noqa: S603
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["it gave no reason"]
        raise BackupError(f"{name} failed: {lines[0] if quiet else ' '.join(lines[:4])}")
    return result.stdout


def _build_environment() -> dict[str, str]:
    """Return the environment with the database's address for libpq; process lists do not show passwords in it."""
    names = {"dbname": "DATABASE"}
    return os.environ | {f"PG{names.get(name, name).upper()}": value for name, value in _get_parameters().items()}


def _get_parameters() -> dict[str, str]:
    """Return the connection parameters of the database for libpq."""
    database: dict[str, Any] = connection.settings_dict
    options = {name: database["OPTIONS"].get(name) for name in ("sslmode", "sslrootcert", "sslcert", "sslkey")}
    names = {"dbname": "NAME", "host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD"}
    parameters = {name: database[column] for name, column in names.items()} | options
    return {name: str(value) for name, value in parameters.items() if value}


def format_stamp() -> str:
    """Return the time for the name of a replaced file."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime())


def _get_data_dir() -> Path:
    return Path(settings.TOOLCARDS.data_dir)
