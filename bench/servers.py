"""Starts the servers under measurement on the first core, with empty data; the load uses the other cores."""

import contextlib
import http.client
import os
import re
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parent.parent
UNINDEXED = "SELECT count(*) FROM toolcards_toolcall WHERE NOT indexed AND state LIKE 'output-%'"
KEY, PASSWORD = f"bench-{secrets.token_hex(16)}", secrets.token_hex(12)


def split_cores() -> tuple[set[int], set[int]]:
    """Return the server's cores and the load's, empty with one core."""
    all_of_them = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return (set(all_of_them[:1]), set(all_of_them[1:])) if len(all_of_them) > 1 else (set(), set())


SERVER_CORES, LOAD_CORES = split_cores()


class Server:
    """A server process under measurement."""

    def __init__(self, name: str, command: list[str], port: int, environment: dict[str, str]) -> None:
        self.name, self.port = name, port
        self.folder: Path | None = None  # its data
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        pin = (lambda: os.sched_setaffinity(0, SERVER_CORES)) if SERVER_CORES else None
        self.process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=self.log, stderr=self.log,
            stdin=subprocess.DEVNULL, preexec_fn=pin,
        )  # fmt: skip

    def wait(self, seconds: float = 60) -> None:
        """Wait until the server listens; exit with its log otherwise."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        self.log.seek(0)
        raise SystemExit(f"{self.name} did not start:\n{self.log.read()[-4000:]}")

    def cpu(self) -> float:
        """Return the seconds of CPU it has used so far, all threads.

        Read from the process's CPU clock, because /proc/…/stat has a resolution of 10 ms. Linux derives the
        clock's number from the process id.
        """
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def memory(self) -> float:
        """Return its resident memory in MB."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def wait_for_index(self) -> float:
        """Wait until the search index has the ended calls; return the seconds.

        Until then it takes half a core in the background. On PostgreSQL, it is not waited for.
        """
        began = time.perf_counter()
        path = next(self.folder.glob("*.sqlite3"), None) if self.folder is not None else None
        if path is None:
            return 0.0
        with contextlib.closing(sqlite3.connect(path)) as database:
            while database.execute(UNINDEXED).fetchone()[0] > 256:
                time.sleep(0.5)
        return round(time.perf_counter() - began, 1)

    def stop(self) -> None:
        """Stop the server, by force after ten seconds."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def find_free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def baseline():
    """Run the server of baseline.py."""
    port = find_free_port()
    server = Server("baseline", [sys.executable, "-m", "bench.baseline", str(port)], port, {})
    try:
        server.wait()
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def storing():
    """Run the server of storing.py with an empty database."""
    port, folder = find_free_port(), tempfile.mkdtemp(prefix="toolcards-bench-")
    server = Server("storing", [sys.executable, "-m", "bench.storing", str(port), f"{folder}/posts.sqlite3"], port, {})
    try:
        server.wait()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def toolcards(**environment: str):
    """Run a Toolcards server with an empty database."""
    port = find_free_port()
    folder = tempfile.mkdtemp(prefix="toolcards-bench-")
    settings = {
        "TOOLCARDS_DATA_DIR": folder, "TOOLCARDS_AGENT_KEY": KEY, "TOOLCARDS_ADMIN_PASSWORD": PASSWORD,
        "TOOLCARDS_LOG_LEVEL": "warning", "TOOLCARDS_STATIC": "plain",
    }  # fmt: skip
    command = [sys.executable, "manage.py", "serve", "--port", str(port)]
    server = Server("toolcards", command, port, settings | environment)
    server.folder = Path((settings | environment)["TOOLCARDS_DATA_DIR"])
    try:
        server.wait()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def find_browser() -> str:
    """Return the path of Chromium, "" if it is missing."""
    names = ("chromium", "chromium-headless-shell", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), "")


class Person:
    """A plain HTTP client that is signed in as admin."""

    def __init__(self, port: int) -> None:
        self.port, self.cookies = port, {}
        self.post("/login/?next=/admin/", {"username": "admin", "password": PASSWORD}, page="/login/")

    def get(self, path: str) -> tuple[int, str]:
        return self._ask("GET", path)

    def post(self, path: str, fields: dict[str, str], page: str = "/admin/") -> tuple[int, str]:
        """Send a form with the CSRF token of the page."""
        return self._ask("POST", path, fields | {"csrfmiddlewaretoken": self.token(page)})

    def token(self, page: str = "/admin/") -> str:
        return re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.get(page)[1])[1]

    def _ask(self, method: str, path: str, fields: dict[str, str] | None = None) -> tuple[int, str]:
        headers = {"Cookie": self.cookie, "Referer": f"http://127.0.0.1:{self.port}/"}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if fields else {}
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        link.request(method, path, body=urlencode(fields) if fields else None, headers=headers)
        answer = link.getresponse()
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                self.cookies |= {morsel.key: morsel.value for morsel in SimpleCookie(value).values()}
        text = answer.read().decode()
        link.close()
        return answer.status, text

    @property
    def cookie(self) -> str:
        """The cookies as a browser sends them."""
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())
