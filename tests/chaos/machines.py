"""PostgreSQL and Redis as things that fail: stopped, started again, paused, and cut off by a proxy."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.services import _as_postgres as as_postgres
from tests.services import _program as program
from tests.serving import PATIENCE, ROOT, held_port, until


class Postgres:
    """A PostgreSQL server in a folder of its own, with a database for each scenario."""

    def __init__(self) -> None:
        initdb = program("initdb")
        assert initdb, "PostgreSQL is not installed"
        self.folder = Path(tempfile.mkdtemp(prefix="toolcards-chaos-postgres-"))
        self._held = held_port()
        self.port = int(self._held.getsockname()[1])
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        command = [initdb, "-D", str(self.folder / "data"), "-A", "trust", "-U", "cards", "-E", "UTF8"]
        subprocess.run(as_postgres(command), check=True, capture_output=True, cwd="/")
        self._process: subprocess.Popen[bytes] | None = None
        self._made = False

    def start(self) -> None:
        """Start it, and wait until it answers."""
        data = str(self.folder / "data")
        options = ["-D", data, "-p", str(self.port), "-k", data, "-c", "listen_addresses=127.0.0.1"]
        command = as_postgres([str(program("postgres")), *options, "-c", "fsync=off", "-c", "max_connections=300"])
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet, cwd="/", start_new_session=True)
        until(self._answers)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one."""
        if self._process is None:
            return
        with suppress(FileNotFoundError):
            os.kill(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]), how)
        self._process.wait(PATIENCE)
        self._process = None

    def remove(self) -> None:
        """End it and delete its folder."""
        self.stop()
        self._held.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str, port: int = 0) -> str:
        """Return the URL of a database; through a proxy with its port."""
        return f"postgres://cards@127.0.0.1:{port or self.port}/{database}"

    def make_database(self, name: str) -> None:
        """Make a database with all tables; migrated once, then copied."""
        if not self._made:
            self.execute("CREATE DATABASE made")
            with tempfile.TemporaryDirectory() as data:
                env = os.environ | {"TOOLCARDS_DATA_DIR": data, "TOOLCARDS_DATABASE_URL": self.url("made")}
                command = [str(ROOT / ".venv/bin/python"), str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
                subprocess.run(command, env=env, check=True, cwd=ROOT)
            self._made = True
        self.execute(f"CREATE DATABASE {name} TEMPLATE made")

    def execute(self, statement: str) -> None:
        """Run one statement in a session of its own."""
        with self.session() as session:
            session.execute(statement)

    def session(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """Open a session whose statements commit at once."""
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=5)

    def end_sessions(self) -> None:
        """End all sessions but our own, as an administrator or a failover does."""
        self.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def _answers(self) -> bool:
        with suppress(psycopg.Error):
            self.execute("SELECT 1")
            return True
        return False


class Redis:
    """A Redis server without persistence."""

    def __init__(self) -> None:
        assert program("redis-server"), "Redis is not installed"
        self._held = held_port()
        self.port = int(self._held.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = tempfile.mkdtemp(prefix="toolcards-chaos-redis-")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self._folder]
        command = [str(program("redis-server")), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        until(lambda: self.send("PING"))

    def send_signal(self, how: signal.Signals) -> None:
        """Send it a signal: SIGSTOP pauses it, SIGCONT wakes it."""
        assert self._process is not None
        self._process.send_signal(how)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
        self._process = None

    def remove(self) -> None:
        """End it and delete its folder."""
        self.stop()
        self._held.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def send(self, command: str) -> bytes:
        """Send a command; returns the answer, empty where none came."""
        with suppress(OSError), closing(socket.create_connection(("127.0.0.1", self.port), 5)) as connection:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(1000)
        return b""


class CommitProxy:
    """A proxy in front of PostgreSQL that loses the answers of COMMITs: it passes them on and cuts the connection."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.lost = 0
        self._wanted = threading.Semaphore(0)
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self) -> None:
        """Lose the answer of the next COMMIT of a transaction that wrote events."""
        self._wanted.release()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._postgres.port)) as server:
            cut = threading.Event()
            threading.Thread(target=self._answer, args=(server, client, cut), daemon=True).start()
            wrote = False
            while piece := client.recv(1 << 16):
                wrote = wrote or b"toolcards_event" in piece
                commits = b"COMMIT" in piece
                if commits and wrote and self._wanted.acquire(blocking=False):
                    cut.set()
                wrote = wrote and not commits
                server.sendall(piece)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while piece := server.recv(1 << 16):
                if cut.is_set():
                    self.lost += 1
                    break
                client.sendall(piece)
        for each in (client, server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
