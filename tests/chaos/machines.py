"""PostgreSQL with a database for each scenario, and Redis, in folders of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from tests.support import services
from tests.support.server import ROOT


class Postgres(services.Postgres):
    """A PostgreSQL server with a database for each scenario."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="toolcards-chaos-postgres-"))
        super().__init__(self._folder)
        self._has_database = False
        self.create()

    def remove(self) -> None:
        """End it and delete its folder."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url_of(self, database: str, port: int = 0) -> str:
        """Return the URL of a database; through a proxy with its port."""
        return f"postgres://cards@127.0.0.1:{port or self.port}/{database}"

    def make_database(self, name: str) -> None:
        """Make a database with all tables; migrated once, then copied."""
        if not self._has_database:
            self._execute("CREATE DATABASE made")
            with tempfile.TemporaryDirectory() as data:
                env = os.environ | {"TOOLCARDS_DATA_DIR": data, "TOOLCARDS_DATABASE_URL": self.url_of("made")}
                command = [str(ROOT / ".venv/bin/python"), str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
                subprocess.run(command, env=env, check=True, cwd=ROOT)
            self._has_database = True
        self._execute(f"CREATE DATABASE {name} TEMPLATE made")

    def session(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """Open a session whose statements commit at once."""
        return psycopg.connect(self.url_of(database), autocommit=True, connect_timeout=5)

    def end_sessions(self) -> None:
        """End all sessions but our own, of every database, as an administrator or a failover does."""
        self._execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def _execute(self, statement: str) -> None:
        with self.session() as session:
            session.execute(statement)


class Redis(services.Redis):
    """A Redis server without persistence."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="toolcards-chaos-redis-"))
        super().__init__(self._folder)
        self.start()

    def remove(self) -> None:
        """End it and delete its folder."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)
