"""Starts `manage.py` from a process that has its modules loaded, since imports take most of a start.

Each test process has two such parents: one with the whole site, see `warm_site`, and one that has loaded no module that
reads settings, for programs with other ones. For each start a parent forks a watcher, which forks the program and sends
its process id and then its exit status. The program is `manage.py` itself with its own environment and settings.
Servers with `bare=True` start as a command, without all this.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from tests.support import warm_site

ROOT = Path(__file__).parents[2]
COLD, WARM = "cold", "warm"  # the ends of the parents' addresses
PURE = ("toolcards.core", "toolcards.adapters", "toolcards.client.common")  # floors below Django
LIBRARIES = """
asyncio concurrent.futures http.client logging.config smtplib sqlite3 ssl urllib.request zoneinfo
channels.db channels.generic.websocket channels.layers channels.routing
cryptography.fernet cryptography.hazmat.primitives.ciphers.aead cryptography.hazmat.primitives.kdf.hkdf
django.core.checks.registry django.core.handlers.asgi django.core.mail django.core.management django.core.paginator
django.db.backends.sqlite3.base django.db.migrations.executor django.db.models.functions django.forms django.http
django.middleware.csrf django.middleware.security django.shortcuts django.template.defaultfilters
django.template.defaulttags django.template.loader django.template.loader_tags django.templatetags.static django.urls
django.utils.translation.trans_real django.views.decorators.csrf django.views.generic
dj_database_url httptools markdown_it prometheus_client pydantic pydantic_settings ruamel.yaml servestatic.middleware
structlog uvicorn uvicorn.lifespan.on uvicorn.protocols.http.httptools_impl yaml
"""


class ForgedProcess:
    """A program started by the parent, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, wire: socket.socket, stdout: IO[str] | None) -> None:
        self.pid, self.stdout, self.returncode, self._wire = pid, stdout, None, wire
        self.returncode: int | None

    def poll(self) -> int | None:
        """Return the exit status if it has ended: that of a signal is negative."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit status."""
        if self.returncode is None:
            if not select.select([self._wire], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("manage.py", timeout or 0)
            self.returncode = struct.unpack("i", self._wire.recv(4))[0]
            self._wire.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)


def start(arguments: list[str], env: dict[str, str], log: IO[Any]) -> ForgedProcess:
    """Start `manage.py` with these arguments; its output comes through a pipe, its errors go to the log."""
    reader, writer = os.pipe()
    pid, wire = _ask(arguments, env, writer, log.fileno())
    os.close(writer)
    return ForgedProcess(pid, wire, os.fdopen(reader))


def run(arguments: list[str], env: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run `manage.py` with these arguments to its end."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = ForgedProcess(*_ask(arguments, env, output.fileno(), errors.fileno()), None)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(["manage.py", *arguments], status, output.read(), errors.read())


def _ask(arguments: list[str], env: dict[str, str], stdout: int, stderr: int) -> tuple[int, socket.socket]:
    wire = socket.socket(socket.AF_UNIX)
    wire.connect(f"{_parents()}.{WARM if warm_site.fits(env) else COLD}")
    request = json.dumps([arguments, env]).encode()
    files = array.array("i", [stdout, stderr])
    wire.sendmsg([struct.pack("I", len(request))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    wire.sendall(request)
    return struct.unpack("i", wire.recv(4))[0], wire


@functools.cache
def _parents() -> str:
    """Start the parents of this test process; return the beginning of the addresses at which they take requests."""
    address = f"{tempfile.mkdtemp(prefix='forge-')}/s"
    process = subprocess.Popen([sys.executable, "-m", "tests.support.forge", address], cwd=ROOT, stdin=subprocess.PIPE)
    atexit.register(process.communicate)  # closes their stdin, at which they end
    while not all(Path(f"{address}.{kind}.ready").exists() for kind in (COLD, WARM)):
        assert process.poll() is None, "the parents of the servers did not start"
        time.sleep(0.01)
    return address


# ---------------------------------------------------------------- in the parents


def serve(address: str) -> None:
    """Be both parents, until the test process ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no one waits for watchers
    _load_libraries()
    if os.fork() == 0:
        _take_requests(f"{address}.{COLD}")
    else:
        warm_site.load()
        _take_requests(f"{address}.{WARM}")


def _load_libraries() -> None:
    for name in LIBRARIES.split():
        importlib.import_module(name)
    for package in map(importlib.import_module, PURE):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    assert "dashboard.settings" not in sys.modules, "a module of the parent reads the settings"


def _take_requests(address: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    Path(f"{address}.ready").touch()
    while True:
        if sys.stdin in (ready := select.select([listener, sys.stdin], [], [])[0]):
            return
        if listener in ready:
            wire = listener.accept()[0]
            if os.fork() == 0:
                listener.close()
                _watch(wire)
                os._exit(0)
            wire.close()


def _watch(wire: socket.socket) -> None:
    """Start the requested program, and send its process id and its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, control, _, _ = wire.recvmsg(4, socket.CMSG_SPACE(8))
    stdout, stderr = array.array("i", control[0][2])
    request = b""
    while len(request) < struct.unpack("I", size)[0]:
        request += wire.recv(1 << 16)
    pid = os.fork()
    if pid == 0:
        wire.close()
        os._exit(_manage(*json.loads(request), stdout, stderr))
    os.close(stdout)
    os.close(stderr)
    wire.sendall(struct.pack("i", pid))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        wire.sendall(struct.pack("i", status))


def _manage(arguments: list[str], env: dict[str, str], stdout: int, stderr: int) -> int:
    """Run `manage.py` in this process; return the exit status."""
    import runpy

    for target, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, stdout), (2, stderr)):
        os.dup2(source, target)
        os.close(source)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="backslashreplace")
    sys.argv = [str(ROOT / "manage.py"), *arguments]
    code = 0
    try:
        if warm_site.is_loaded():
            warm_site.take_settings()
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    with contextlib.suppress(Exception):
        import threading

        threading._shutdown()  # type: ignore[attr-defined]  # wait for its threads, as the interpreter does
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[1])
