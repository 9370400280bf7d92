"""PostgreSQL and Redis servers that tests start for themselves, in folders of their own, on free ports."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serving import PATIENCE, held_port, until


def _program(name: str) -> str | None:
    """Debian keeps PostgreSQL's programs off the PATH, one folder a version."""
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return shutil.which(name) or (str(newest[0]) if newest else None)


def _as_postgres(command: list[str]) -> list[str]:
    """PostgreSQL refuses to run as root: then it runs as its own user."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL server; yield the URL of an empty database."""
    initdb, server, createdb = (_program(name) for name in ("initdb", "postgres", "createdb"))
    if not (initdb and server and createdb):
        pytest.skip("PostgreSQL is not installed")
    data = folder / "postgres"
    data.mkdir()
    if os.geteuid() == 0:
        for part in (folder, *folder.parents):
            if str(part).startswith("/tmp/"):
                part.chmod(part.stat().st_mode | 0o011)
        shutil.chown(data, "postgres", "postgres")
    subprocess.run(
        _as_postgres([initdb, "-D", str(data), "-A", "trust", "-U", "cards", "-E", "UTF8"]),
        check=True,
        capture_output=True,
    )
    with held_port() as held:
        port = str(held.getsockname()[1])
        options = ["-D", str(data), "-p", port, "-k", str(data), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        with subprocess.Popen(
            _as_postgres([server, *options]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                made = [createdb, "-h", "127.0.0.1", "-p", port, "-U", "cards", "cards"]
                until(lambda: subprocess.run(made, capture_output=True).returncode == 0)
                yield f"postgres://cards@127.0.0.1:{port}/cards"
            finally:
                _end(process)


class Redis:
    """A Redis server without persistence that can be stopped, paused and started again on its port."""

    def __init__(self, folder: Path) -> None:
        program = _program("redis-server")
        if not program:
            pytest.skip("Redis is not installed")
        self._held = held_port()
        self.port = int(self._held.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._command = [program, *options, "--dir", str(folder)]
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Redis:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self._held.close()

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
        """Pause it (SIGSTOP), or have it go on (SIGCONT)."""
        assert self.process is not None
        self.process.send_signal(number)


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Run a Redis server without persistence; yield its URL."""
    with Redis(folder) as server:
        yield server.url


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
