"""Each fault of the table in docs/operations.md shows what its row says in log, metrics, readiness and pages."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.support.server import KEY, PATIENCE, Server, until
from tests.support.services import Postgres, Redis, postgres, postgres_server
from tests.support.voter import Voter

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
CODE = re.compile(r"`([^`]+)`")
FAILING_PART = re.compile(r"(\w+) fails; trying again")
SOMETIMES = {"anchoring"}  # fails with the disk or database if the trail has rows that are not anchored yet


@dataclass(frozen=True)
class Row:
    """What the table says about one fault."""

    log: list[str]
    metrics: list[str]
    readiness: str
    page: list[str]


def read_rows() -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line in PAGE.partition("<!-- compared: faults -->\n")[2].partition("\n\n")[0].splitlines()[2:]:
        fault, log, metrics, readiness, page = (cell.strip() for cell in line.strip("|").split("|"))
        rows[fault] = Row(CODE.findall(log), CODE.findall(metrics), readiness, CODE.findall(page))
    return rows


ROWS = read_rows()


class Observation:
    """What a server shows now, since this was made."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._headers = {"Cookie": Voter(server).cookies}
        self._browser = http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=2 * PATIENCE)
        self._read_page()
        self._log_start, self._restart_count = len(self._read_log()), self._count_restarts()

    def _read_log(self) -> str:
        return (self.server.data / "server.log").read_text()

    def _read_metrics(self) -> str:
        status, text, _ = self.server.request("GET", "/metrics", key=None)
        assert status == 200, text
        return str(text)

    def _read_page(self) -> str:
        """Read a page over a connection that stays open, or over a new one if its process has ended."""
        try:
            self._browser.request("GET", "/runs/", headers=self._headers)
            answer = self._browser.getresponse()
        except ConnectionError:
            self._browser.close()
            self._browser.request("GET", "/runs/", headers=self._headers)
            answer = self._browser.getresponse()
        return answer.read().decode().replace("&#x27;", "'")

    def _count_restarts(self) -> float:
        match = re.search(r"^toolcards_worker_restarts_total (\S+)", self._read_metrics(), re.MULTILINE)
        assert match
        return float(match[1])

    def expect(self, row: Row) -> None:
        """Wait until everything is as the row says, with nothing more."""
        until(lambda: self._read_readiness() == row.readiness, 2 * PATIENCE)  # a new worker has 60 s to answer
        parts = {word for word in row.metrics if not word.startswith("toolcards_")}
        names = {word for word in row.metrics if word.startswith("toolcards_")} - {"toolcards_disk_used_share"}
        with contextlib.suppress(AssertionError):
            until(lambda: self._list_metrics() == (parts, names))
        assert self._list_metrics() == (parts, names)
        assert all(name in self._read_metrics() for name in row.metrics if name.startswith("toolcards_"))
        until(lambda: all(re.search(_compile_words(words), self._news()) for words in row.log))
        assert set(FAILING_PART.findall(self._news())) - SOMETIMES == parts
        page = self._read_page()
        assert all(words in page for words in row.page)
        shown_parts = set(re.findall(r'data-outage="(\w+)"', page)) - SOMETIMES
        assert not shown_parts or shown_parts == parts
        assert bool(shown_parts or "data-disk" in page or "cannot reach" in page) is bool(row.page)

    def _news(self) -> str:
        return self._read_log()[self._log_start :]

    def _read_readiness(self) -> str:
        """Return the answer in the words of the table."""
        status, body, _ = self.server.request("GET", "/readyz", key=None)
        if status == 503:
            names = {reason["check"] for reason in body["error"]["detail"]["reasons"]}
            order = ["database", "writing", "sending", "channel_layer", "connections", "plugins"]
            return "503: " + ", ".join(f"`{name}`" for name in sorted(names, key=order.index))
        warnings = [warning["warning"] for warning in body["warnings"]]
        return "200" + "".join(f", warning `{name}`" for name in warnings)

    def _list_metrics(self) -> tuple[set[str], set[str]]:
        """Return the parts that fail, and the metrics that show a fault."""
        text = self._read_metrics()
        parts = set(re.findall(r'^toolcards_outage\{part="(\w+)",process="\d+"\} 1\.0', text, re.MULTILINE)) - SOMETIMES
        names = {"toolcards_outage"} if parts else set()
        if self._count_restarts() > self._restart_count:
            names.add("toolcards_worker_restarts_total")
        return parts, names


def _compile_words(words: str) -> str:
    return re.escape(words).replace("…", r"\d+")


# ---------------------------------------------------------------- servers


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("single"), database_url="", redis_url="", max_unauthenticated=1000) as server:
        yield server


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with postgres_server(tmp_path_factory.mktemp("database")) as running:
        yield running


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with Redis(tmp_path_factory.mktemp("layer")) as running:
        yield running


@pytest.fixture(scope="module")
def connected(database: Postgres, layer: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of one process with PostgreSQL and Redis."""
    with Server(tmp_path_factory.mktemp("one"), database_url=database.url, redis_url=layer.url) as server:
        yield server


@pytest.fixture
def workers(layer: Redis, tmp_path: Path) -> Iterator[Server]:
    data = tmp_path / "data"
    data.mkdir()
    with postgres(tmp_path) as url, Server(data, workers=2, database_url=url, redis_url=layer.url) as server:
        yield server


# ---------------------------------------------------------------- faults

Cause = Callable[[Any, pytest.FixtureRequest], AbstractContextManager[None]]
CAUSES: dict[str, tuple[str, Cause]] = {}  # by the words of the table: the fixture of the server, and what happens


def cause(fault: str, server: str) -> Callable[[Callable[..., Iterator[None]]], None]:
    def add(function: Callable[..., Iterator[None]]) -> None:
        CAUSES[fault] = server, contextlib.contextmanager(function)

    return add


@cause("PostgreSQL is away", "connected")
def stop_postgresql(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    database: Postgres = request.getfixturevalue("database")
    database.stop()
    try:
        yield
    finally:
        database.start()


@cause("PostgreSQL does not answer", "connected")
def pause_postgresql(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    database: Postgres = request.getfixturevalue("database")
    database.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        database.signal(signal.SIGCONT)


@cause("another program locks a table of PostgreSQL", "connected")
def lock_table(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    database: Postgres = request.getfixturevalue("database")
    with psycopg.connect(database.url) as other:
        other.execute("LOCK TABLE toolcards_run, toolcards_pulse IN ACCESS EXCLUSIVE MODE")
        yield
        other.rollback()


@cause("Redis does not answer", "connected")
def pause_redis(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    redis: Redis = request.getfixturevalue("layer")
    redis.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        redis.signal(signal.SIGCONT)


@cause("Redis is away", "connected")
def stop_redis(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    redis: Redis = request.getfixturevalue("layer")
    redis.kill()
    try:
        yield
    finally:
        redis.start()


@cause("another program locks SQLite", "single")
def lock_database(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    database = server.data / "toolcards.sqlite3"
    with contextlib.closing(sqlite3.connect(database, timeout=PATIENCE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@cause("file descriptors run out", "single")
def use_up_descriptors(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    assert server.process is not None
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    limit = 2 * max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()) + 60
    address = (urlsplit(server.base).hostname, urlsplit(server.base).port)
    question = f"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.prlimit, pid, resource.RLIMIT_NOFILE, before)
        for _ in range(limit):
            one = stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
            one.sendall(question)
            if one.recv(4096).startswith(b"HTTP/1.1 503"):
                break
        yield


@cause("a worker was killed", "workers")
def kill_worker(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    worker = find_worker(server)
    os.kill(worker, signal.SIGSTOP)  # so that its supervisor is waiting for its answer when it ends
    os.kill(worker, signal.SIGKILL)
    yield


@cause("a worker hangs", "workers")
def pause_worker(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    os.kill(find_worker(server), signal.SIGSTOP)
    yield


@cause("workers are replaced (SIGHUP)", "workers")
def replace_workers(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    assert server.process is not None
    first = find_worker(server)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: not Path(f"/proc/{first}").exists() or find_worker(server) != first)
    yield


def find_worker(server: Server) -> int:
    """Return the process that answers now."""
    match = re.search(r'toolcards_connections\{process="(\d+)"\}', server.request("GET", "/metrics")[1])
    assert match
    return int(match[1])


# ---------------------------------------------------------------- tests

OTHERS = {
    "the disk is full", "the disk is filling", "a required plugin is missing", "a restore was killed",
    "the secret key is another one",
}  # fmt: skip
SERVICES = {
    "connected": (pytest.mark.postgres, pytest.mark.redis),
    "workers": (pytest.mark.postgres, pytest.mark.redis),
}


def test_each_fault_of_the_table_is_caused_here() -> None:
    assert ROWS.keys() == CAUSES.keys() | OTHERS


@pytest.mark.thorough
@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=SERVICES.get(server, ())) for fault, (server, _) in CAUSES.items()]
)
def test_a_fault_shows_what_its_row_says(fault: str, request: pytest.FixtureRequest) -> None:
    fixture, happen = CAUSES[fault]
    server = request.getfixturevalue(fixture)
    observation = Observation(server)
    with happen(server, request):
        observation.expect(ROWS[fault])
    if fixture != "workers":
        until(lambda: server.request("GET", "/readyz", key=None)[0] == 200)


@pytest.mark.thorough
def test_a_full_disk_shows_what_its_row_says(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m,mode=0700", "toolcards-test", str(disk)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        (disk / "server.log").symlink_to(tmp_path / "server.log")  # the log has room
        with Server(disk, database_url="", redis_url="") as server:
            observation = Observation(server)
            with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
                while filler.write(b"x" * 4096):
                    pass
            observation.expect(ROWS["the disk is full"])
            (disk / "filler").unlink()
            until(lambda: server.request("GET", "/readyz", key=None)[0] == 200)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=False)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "settings"),
    [
        ("the disk is filling", {"disk_warning": 0.0001}),
        ("a required plugin is missing", {"required_plugins": "tickets"}),
    ],
)
def test_a_fault_of_the_setup_shows_what_its_row_says(fault: str, settings: dict[str, Any], tmp_path: Path) -> None:
    with Server(tmp_path, **settings) as server:
        Observation(server).expect(ROWS[fault])


@pytest.mark.thorough
def test_a_start_after_a_killed_restore_shows_what_its_row_says(tmp_path: Path) -> None:
    with Server(tmp_path, database_url="", redis_url="") as server:
        observation = Observation(server)
        server.stop()
        (tmp_path / ".restore-1").mkdir()
        server.start()
        observation.expect(ROWS["a restore was killed"])


@pytest.mark.thorough
def test_a_start_with_another_secret_key_shows_what_its_row_says(tmp_path: Path) -> None:
    with Server(tmp_path, database_url="", redis_url="") as server:
        server.stop()
        other = Server(tmp_path, database_url="", redis_url="", secret_key="another key, long enough for this purpose")
        with pytest.raises(AssertionError) as refusal, other:
            pass
        row = ROWS["the secret key is another one"]
        assert (row.metrics, row.readiness) == ([], "no answer")
        assert all(words in str(refusal.value) for words in row.log), refusal.value
