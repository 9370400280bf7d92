"""PostgreSQL and Redis servers of tests, in their own folders, on free ports."""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.server import PATIENCE, held_port, migrate, until
from tests.support.shared import make_once, share_folder


def find_program(name: str) -> str | None:
    """Return the path of a PostgreSQL program, which Debian keeps off the PATH."""
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return shutil.which(name) or (str(newest[0]) if newest else None)


def _unprivileged() -> str | None:
    """PostgreSQL refuses to run as root: return the user that it runs as then, its own or one that is everywhere."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


@functools.cache
def _within_reach(program: str) -> str:
    """Return the program where every user can start it: a checkout in root's home is closed to others."""
    real = Path(program).resolve()
    tools = Path(__file__).parents[2] / ".tools"
    if os.geteuid() != 0 or not real.is_relative_to(tools):
        return program
    return str(_copied(tools / real.relative_to(tools).parts[0]) / Path(*real.relative_to(tools).parts[1:]))


def _copied(package: Path) -> Path:
    share_folder().chmod(0o755)
    return make_once(f"programs-{package.name}", lambda folder: shutil.copytree(package, folder, dirs_exist_ok=True))


def _postgres(name: str) -> str:
    """Return one of PostgreSQL's programs, all of which must exist."""
    program = find_program(name)
    assert program
    return _within_reach(program)


class Postgres:
    """A PostgreSQL server that tests stop and start: `url` is that of an empty database."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.data, self.durable = folder / "postgres", durable
        self._process: subprocess.Popen[bytes] | None = None
        self._port_holder = held_port()
        self.port = int(self._port_holder.getsockname()[1])
        self.url = f"postgres://cards@127.0.0.1:{self.port}/cards"

    def create(self, *, migrated: bool = False) -> None:
        """Copy the files of a cluster and start it. `migrated`: its database has all tables and no rows of ours."""
        if not all(find_program(name) for name in ("initdb", "postgres", "createdb", "psql")):
            pytest.skip("not here: PostgreSQL")
        self._open_parents()
        subprocess.run(["cp", "-a", str(_make_cluster(migrated)), str(self.data)], check=True)
        self.start()

    def initialize(self) -> None:
        """Make its files and an empty database, and start it."""
        self.data.mkdir()
        self._open_parents()
        user = _unprivileged()
        if user:
            shutil.chown(self.data, user)
        command = [_postgres("initdb"), "-D", str(self.data), "-A", "trust", "-U", "cards", "-E", "UTF8", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, user=user, cwd=self.data)
        self.start(_postgres("createdb"), "cards")

    def _open_parents(self) -> None:
        """Let PostgreSQL's user pass through the folders above its data."""
        if _unprivileged():
            for part in self.data.parents:
                if str(part).startswith(("/tmp/", "/dev/shm/")):
                    part.chmod(part.stat().st_mode | 0o011)

    def start(self, *first: str) -> None:
        """Start it; return once it answers (to this program of PostgreSQL, else to a query)."""
        options = ["-D", str(self.data), "-p", str(self.port), "-c", "unix_socket_directories="]
        options += [
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            f"fsync={'on' if self.durable else 'off'}",
            "-c",
            "max_connections=300",
        ]
        with (self.data.parent / "postgres.log").open("ab") as log:
            command = [_postgres("postgres"), *options]
            user = _unprivileged()
            self._process = subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd=self.data)
        program, *rest = first or (_postgres("psql"), "-d", "cards", "-c", "SELECT 1")
        command = [program, "-h", "127.0.0.1", "-p", str(self.port), "-U", "cards", *rest]
        until(lambda: subprocess.run(command, capture_output=True).returncode == 0)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT is its "fast" way, SIGQUIT its "immediate" one, after which it recovers from its log."""
        if self._process is not None:
            # not to the wrapper that changes the user
            os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), how)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Signal the server and all its sessions."""
        server = int((self.data / "postmaster.pid").read_text().split()[0])
        sessions = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        for process in (server, *map(int, sessions)):
            os.kill(process, number)

    def end_sessions(self) -> None:
        """End all sessions, as an administrator can."""
        others = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'cards' AND pid <> pg_backend_pid()"
        )
        command = [_postgres("psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "cards", "-c", others, "cards"]
        subprocess.run(command, check=True, capture_output=True)

    def close(self) -> None:
        """Stop it permanently."""
        self.stop()
        self._port_holder.close()


def _make_cluster(migrated: bool) -> Path:
    """Return the files of a stopped server, made once: initdb takes seconds, and so do our migrations."""

    def make(folder: Path) -> None:
        cluster = Postgres(folder)
        try:
            if migrated:
                cluster.create()
                migrate(folder, cluster.url)
            else:
                cluster.initialize()
        finally:
            cluster.close()

    return make_once(f"postgres-{'migrated' if migrated else 'empty'}", make) / "postgres"


@contextmanager
def postgres_server(folder: Path, *, migrated: bool = True, durable: bool = False) -> Iterator[Postgres]:
    """Run a PostgreSQL server that can be stopped. `durable`: its commits are on disk."""
    server = Postgres(folder, durable=durable)
    try:
        server.create(migrated=migrated)
        yield server
    finally:
        server.close()


@contextmanager
def postgres(folder: Path, *, migrated: bool = True) -> Iterator[str]:
    """Run a PostgreSQL server; yield the URL of a database with all tables, or without any."""
    with postgres_server(folder, migrated=migrated) as server:
        yield server.url


class Redis:
    """A Redis server without persistence that can be stopped, paused and restarted on its port."""

    def __init__(self, folder: Path) -> None:
        program = find_program("redis-server")
        if not program:
            pytest.skip("not here: Redis")
        self._port_holder = held_port()
        self.port = int(self._port_holder.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._command = [program, *options, "--dir", str(folder)]
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Redis:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop it permanently."""
        self.kill()
        self._port_holder.close()

    def start(self) -> None:
        """Start it, empty."""
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        until(lambda: _answers(self.port))

    def kill(self) -> None:
        """End it at once, paused or not."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None

    def signal(self, number: signal.Signals) -> None:
        """Pause it (SIGSTOP), or resume it (SIGCONT)."""
        assert self.process is not None
        self.process.send_signal(number)

    def send(self, command: str) -> None:
        """Send it a command."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            connection.sendall(command.encode() + b"\r\n")
            connection.recv(1000)


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Run a Redis server without persistence; yield its URL."""
    with Redis(folder) as server:
        yield server.url


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
