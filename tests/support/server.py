"""A real server in a separate process, and how tests use it."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import shutil
import signal
import socket as sockets
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from websockets.sync.client import ClientConnection, connect

from tests.support import forge
from tests.support.shared import make_once

ROOT = Path(__file__).parents[2]
KEY = "tck_key_of_the_test_server_0123456789abcdef"
PASSWORD = "a password for the test server"
FIRST_START = {"admin_password", "agent_key", "default_effect", "secret_key", "secret_key_file"}  # decided once
MAX_UNKNOWN_PEERS = 40  # of one address, on the server of tests/dashboard/serving
PATIENCE = 60.0  # seconds that tests wait for what must happen, so that busy machines cause no failures


class Server:
    """`manage.py serve` on a free port, in a data directory of its own. The environment by keyword: `grace=0.5`.

    It begins with data that were made once for all; `bare=True` starts the product as it is, in an empty folder.
    """

    def __init__(self, data: Path, *, bare: bool = False, **settings: object) -> None:
        self.data, self.key, self.password, self.bare = data, KEY, PASSWORD, bare
        self.program = [sys.executable, str(ROOT / "manage.py")]  # of a bare server
        self._settings = settings
        self._port_holder: sockets.socket | None = None
        self.process: subprocess.Popen[str] | forge.ForgedProcess | None = None
        self.base = ""

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        if self._port_holder is not None:
            self._port_holder.close()

    def manage(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a management command on the server's data."""
        if not self.bare:
            return forge.run(list(command), self._env(), 3 * PATIENCE)
        program = [sys.executable, str(ROOT / "manage.py"), *command]
        return subprocess.run(program, env=self._env(), capture_output=True, text=True, timeout=3 * PATIENCE)

    def start(self) -> None:
        """Start, again if it was stopped: on the same port and the same data."""
        self.data.chmod(0o700)
        if not self.bare and "database_url" not in self._settings and not (self.data / "toolcards.sqlite3").exists():
            self._copy_data()
        self._port_holder = self._port_holder or held_port()
        port = str(self._port_holder.getsockname()[1])
        arguments = ["serve", "--port", port, *self._flags()]
        with (self.data / "server.log").open("a") as log:
            if self.bare:
                program = [*self.program, *arguments]
                self.process = subprocess.Popen(program, env=self._env(), stdout=subprocess.PIPE, stderr=log, text=True)
            else:
                self.process = forge.start(arguments, self._env(), log)
        self.base = self._wait_for_address()

    def _copy_data(self) -> None:
        """Begin with the data of a server that ran before, or with tables only if its first start would differ."""
        files = [migrated()] if self._settings.keys() & FIRST_START else list(ready_data().iterdir())
        for file in files:
            shutil.copyfile(file, self.data / file.name)
            (self.data / file.name).chmod(0o600)

    def stop(self) -> None:
        """Send SIGTERM and wait."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.process = None

    def _flags(self) -> list[str]:
        return ["--server", str(self._settings["server"])] if "server" in self._settings else []

    def _env(self) -> dict[str, str]:
        ours = {f"TOOLCARDS_{name.upper()}": str(value) for name, value in self._settings.items() if name != "server"}
        return os.environ | {
            "DJANGO_SETTINGS_MODULE": "dashboard.settings" if self.bare else "tests.support.settings",
            "TOOLCARDS_DATA_DIR": str(self.data), "TOOLCARDS_AGENT_KEY": KEY, "TOOLCARDS_ADMIN_PASSWORD": PASSWORD,
            "TOOLCARDS_STATIC": "plain", "TOOLCARDS_DISK_WARNING": "0", "PYTHONUNBUFFERED": "1",
        } | ours  # fmt: skip

    def _wait_for_address(self) -> str:
        assert self.process is not None
        base, result = read_address(self.process)
        assert base, f"the server did not start: {result} {(self.data / 'server.log').read_text()[-2000:]}"
        return base

    # ------------------------------------------------------------ talking

    def request(
        self, method: str, path: str, body: Any = None, *, key: str | None = KEY, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Return status, JSON (or text) and headers.

        A body that is neither text nor bytes is sent as JSON.
        """
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if key:
            header_fields.setdefault("Authorization", f"Bearer {key}")
        if body is not None and not isinstance(body, (str, bytes)) and not hasattr(body, "__next__"):
            body = json.dumps(body)
            header_fields.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(urlsplit(self.base).netloc, timeout=2 * PATIENCE)
        try:
            connection.request(method, path, body, header_fields, encode_chunked=hasattr(body, "__next__"))
            answer = connection.getresponse()
            text = answer.read().decode()
            payload = json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text
            return answer.status, payload, dict(answer.headers)
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """Return the JSON of an existing page."""
        status, body, _ = self.request("GET", path)
        assert status == 200, body
        return body

    def socket(self, *, key: str = KEY, headers: dict[str, str] | None = None, **query: str) -> ClientConnection:
        """Open an agent socket."""
        url = f"{self.base.replace('http', 'ws', 1)}/ws/agent/?{urlencode(query)}"
        fields = {"Authorization": f"Bearer {key}"} if key else {}
        return connect(
            url, additional_headers=fields | (headers or {}), max_size=None, compression=None, open_timeout=PATIENCE
        )


def with_curl() -> dict[str, str]:
    """Return an environment with curl: the machine's, else a replacement."""
    return os.environ | {"PATH": os.pathsep.join([os.environ["PATH"], str(ROOT / "tests/programs")])}


def migrated() -> Path:
    """Return a database with all tables and no people, made once for all servers: it takes three seconds."""
    return make_once("migrated", lambda folder: migrate(folder, "")) / "toolcards.sqlite3"


def ready_data() -> Path:
    """Return the data of a server that ran once, for all servers: roles, an admin, a key and a policy."""

    def make(folder: Path) -> None:
        shutil.copyfile(migrated(), folder / "toolcards.sqlite3")
        with Server(folder):
            pass
        sqlite3.connect(folder / "toolcards.sqlite3").execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
        for name in ("address", "server.lock", "server.log"):
            (folder / name).unlink()

    return make_once("ready", make)


def migrate(folder: Path, database_url: str) -> None:
    """Make all tables, by the command and with the settings of the product."""
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "dashboard.settings", "TOOLCARDS_DATA_DIR": str(folder)}
    command = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0", "--skip-checks"]
    env["TOOLCARDS_DATABASE_URL"] = database_url
    subprocess.run(command, env=env, check=True, timeout=3 * PATIENCE)


def read_address(process: subprocess.Popen[str] | forge.ForgedProcess) -> tuple[str, str]:
    """Return the address that the program says it serves at, "" if it never does, and all that it said."""
    assert process.stdout is not None
    # Read from the pipe itself, because `select` does not see lines in a reader's buffer.
    pipe, value, end = process.stdout.fileno(), b"", time.monotonic() + 2 * PATIENCE
    while time.monotonic() < end:
        if select.select([pipe], [], [], 0.2)[0]:
            piece = os.read(pipe, 1 << 16)
            value += piece
            match = re.search(rb"(http://[\d.]+:\d+)\s", value)
            if match or not piece:
                return match[1].decode() if match else "", value.decode("utf-8", "replace")
    return "", value.decode("utf-8", "replace")


def held_port() -> sockets.socket:
    """Return a socket that keeps a free port free: no one else gets it, and a server may listen on it.

    While it is bound the system hands its port to no connection and to no program that asks for any port; it does not
    listen itself, so who asks for exactly this port (with SO_REUSEADDR, as servers do) gets it, again after a restart.
    """
    holder = sockets.socket()
    holder.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def until(condition: Any, seconds: float = PATIENCE) -> Any:
    """Call `condition` until it returns something true; return that.

    First every few milliseconds.
    """
    end, pause = time.monotonic() + seconds, 0.005
    while True:
        value = condition()
        if value or time.monotonic() > end:
            assert value, "it did not come true in time"
            return value
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
