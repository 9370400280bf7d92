"""Where a scenario runs: a server on SQLite or on PostgreSQL and Redis, and the faults that can be injected."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.machines import Postgres, Redis
from tests.support.commit_cutter import Cutter
from tests.support.server import Server, until


@dataclass(frozen=True)
class Setup:
    """On what a scenario runs."""

    store: str = "sqlite"
    workers: int = 1
    server: str = "uvicorn"

    def __str__(self) -> str:
        return f"{self.store} {self.workers} {self.server}"


@dataclass
class Machines:
    """PostgreSQL and Redis, started when the first scenario needs them and kept for all."""

    _postgres: Postgres | None = None
    _redis: Redis | None = None
    databases: int = 0

    @property
    def postgres(self) -> Postgres:
        """The PostgreSQL server."""
        if self._postgres is None:
            self._postgres = Postgres()
        return self._postgres

    @property
    def redis(self) -> Redis:
        """The Redis server."""
        if self._redis is None:
            self._redis = Redis()
        return self._redis

    def remove(self) -> None:
        """End what was started."""
        for machine in (self._postgres, self._redis):
            if machine is not None:
                machine.remove()


@dataclass
class Stage:
    """One scenario's server, and the faults to inject."""

    setup: Setup
    server: Server
    machines: Machines
    database: str = ""
    proxy: Cutter | None = None

    @property
    def log(self) -> str:
        """What the server wrote into its log."""
        return (self.server.data / "server.log").read_text(errors="replace")

    def kill(self) -> None:
        """Kill the server and its workers as a power cut does, and start it again."""
        family = [self.pid, *self.workers()]
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.kill()
        self.server.start()

    def restart(self) -> None:
        """Stop the server with SIGTERM, and start it again."""
        self.server.stop()
        self.server.start()

    def pause(self, seconds: float) -> None:
        """Stop all of the server's processes for a while, as a laptop that sleeps does."""
        family = [self.pid, *self.workers()]
        for how in (signal.SIGSTOP, signal.SIGCONT):
            for pid in family:
                os.kill(pid, how)
            if how is signal.SIGSTOP:
                time.sleep(seconds)

    def replace_workers(self) -> None:
        """End one worker after the other; the next one when its successor is there."""
        for pid in self.workers():
            others = set(self.workers())
            os.kill(pid, signal.SIGTERM)
            until(lambda pid=pid, others=others: pid not in self.workers() and set(self.workers()) - others)
            time.sleep(3.0)  # a new worker serves after its imports; nothing outside shows which worker answers

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock that keeps everybody from writing."""
        if self.setup.store == "sqlite":
            connection = sqlite3.connect(self.server.data / "toolcards.sqlite3", isolation_level=None, timeout=30)
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")
            connection.close()
            return
        with self.machines.postgres.session(self.database) as session, session.transaction():
            session.execute("LOCK TABLE toolcards_event IN ACCESS EXCLUSIVE MODE")
            yield

    @contextmanager
    def full(self) -> Iterator[None]:
        """Fill the disk of the data directory, which must be one of its own."""
        filler = self.server.data / "filler"
        with filler.open("wb") as out, suppress(OSError):
            while True:
                out.write(b"\0" * (1 << 16))
                out.flush()
        yield
        filler.unlink()

    @property
    def pid(self) -> int:
        """The server's first process."""
        assert self.server.process is not None
        return self.server.process.pid

    def workers(self) -> list[int]:
        """Return the worker processes, oldest first; none where the first process serves itself."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return sorted(int(pid) for pid in children if b"spawn_main" in _command_of(pid))


def _command_of(pid: str) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""  # it has ended since it was listed


def explain_skip(setup: Setup, needs: str) -> str:
    """Return why a scenario with these needs cannot run here, "" if it can."""
    if needs == "disk" and (os.geteuid() != 0 or setup.store != "sqlite"):
        return "needs root, for a small disk" if setup.store == "sqlite" else "the disk is PostgreSQL's"
    if needs in ("postgres", "proxy", "redis") and setup.store != "postgres":
        return f"has no {needs}"
    return "has one worker" if needs == "workers" and setup.workers == 1 else ""


@contextmanager
def staged(setup: Setup, machines: Machines, needs: str = "", **settings: object) -> Iterator[Stage]:
    """Start a server on this setup; end it, and delete its data, at the end."""
    folder = Path(tempfile.mkdtemp(prefix="toolcards-chaos-"))
    data = folder / "data"
    data.mkdir(mode=0o700)
    database, proxy = "", None
    if setup.store == "postgres":
        machines.databases += 1
        database = f"cards{machines.databases}"
        machines.postgres.make_database(database)
        proxy = Cutter(machines.postgres.port) if needs == "proxy" else None
        url = machines.postgres.url_of(database, proxy.port if proxy else 0)
        settings |= {"database_url": url, "redis_url": machines.redis.url}
    server = Server(data, server=setup.server, workers=setup.workers, **settings)
    mounted = needs == "disk" and _mount_small_disk(data)
    try:
        server.start()
        yield Stage(setup, server, machines, database, proxy)
    finally:
        server.stop()
        if proxy:
            proxy.close()
        if mounted:
            subprocess.run(["umount", "--lazy", str(data)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _mount_small_disk(data: Path) -> bool:
    completed = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m,mode=0700", "toolcards-chaos", str(data)], check=False
    )
    if completed.returncode:
        raise NotRun("a small disk cannot be mounted here")
    return True


class NotRun(Exception):
    """A scenario that this machine cannot run."""
