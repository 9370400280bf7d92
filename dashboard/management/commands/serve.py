"""Sets up a server from a fresh checkout: tables, static files, people, keys; then serves."""

import argparse
import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection, connections

from dashboard import checks, environment, serving
from dashboard.accounts import sign_in_links
from dashboard.environment import BASE_DIR, Environment
from dashboard.management import first_run, occupancy
from dashboard.management.started_server import StartedServer
from toolcards import backup
from toolcards.audit import rows

log = structlog.get_logger("toolcards.serve")
SERVERS = {"uvicorn": serving.run_uvicorn, "daphne": serving.run_daphne}


class Command(BaseCommand):
    """Sets up what is missing, then serves."""

    help = "Set up what is missing (tables, static files, an admin, an agent key), then serve."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that override the environment."""
        env = settings.TOOLCARDS
        parser.add_argument("--host", default=env.host, help=f"address to listen on (default: {env.host})")
        parser.add_argument(
            "--port", type=_parse_port, default=env.port, help=f"port; 0 picks a free port (default: {env.port})"
        )
        parser.add_argument(
            "--workers",
            type=int,
            default=env.workers,
            help="number of processes; more than 1 requires Redis and PostgreSQL",
        )
        parser.add_argument("--server", choices=SERVERS, default="uvicorn", help="uvicorn, or Daphne for development")
        parser.add_argument("--demo", action="store_true", help="play the bundled demo run once the server is up")

    def check(self, *args: Any, **kwargs: Any) -> None:
        """See Django; with JSON logs, findings are lines of the log."""
        if settings.TOOLCARDS.log != "json":
            return super().check(*args, **kwargs)
        findings = run_checks(include_deployment_checks=False)
        for finding in findings:
            log.log(finding.level, finding.msg, hint=finding.hint or "", check=finding.id or "")
        if any(finding.is_serious() and not finding.is_silenced() for finding in findings):
            raise CommandError("The settings have errors: see the lines above.")
        return None

    def handle(self, *, host: str, port: int, workers: int, server: str, demo: bool, **options: object) -> None:
        """Set up and serve until a signal arrives."""
        env = self._environment(host, port, workers, server)
        os.umask(0o077)  # the database and spooled bodies are private
        # Everything that was started ends with this process, whatever the reason.
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):  # Windows has fewer signals
                signal.signal(getattr(signal, name), lambda number, frame: sys.exit(0))
        with self._alone() as announce, closing(self._bind(env)) as server_socket, suppress(KeyboardInterrupt):
            base = f"http://{_get_visible_host(env.host)}:{server_socket.getsockname()[1]}"
            announce(base)
            self._serve(env, server, server_socket, base, demo=demo)

    @contextmanager
    def _alone(self) -> Iterator[Callable[[str], None]]:
        """Lock a SQLite database for this server, since two would miss each other's calls.

        PostgreSQL supports several servers.
        """
        folder = settings.TOOLCARDS.data_dir
        try:
            with (
                occupancy.occupy_folder(folder)
                if connection.vendor == "sqlite"
                else nullcontext(lambda address: None) as announce
            ):
                yield announce
        except occupancy.FolderOccupied as occupied:
            raise CommandError(
                f"Another server uses {folder}: {occupied}. Stop it first, or set TOOLCARDS_DATA_DIR to another folder."
            ) from None

    def _serve(self, env: Environment, server: str, server_socket: socket.socket, base: str, *, demo: bool) -> None:
        self._clean_up_restore()
        self._check_key()  # before the tables change, and after: they may be of a version without the column
        call_command("migrate", interactive=False, verbosity=0)
        self._check_key()
        _collect_static()
        first = first_run.prepare(env, shows_key=settings.TOOLCARDS.log != "json" or self.stdout.isatty())
        link = sign_in_links.make_link(first.admin, _get_public_url(base)) if first.admin else ""
        with _prepare_demo(base if demo else None) as play:
            connections.close_all()  # the server's threads open their own

            def ready() -> None:
                (settings.TOOLCARDS.data_dir / "address").write_text(base)  # `connect` reads it
                self._banner(base, link, first.agent_key)
                play()

            SERVERS[server](env, server_socket, ready=ready)

    def _check_key(self) -> None:
        """Refuse data of another key, and leave no new key behind."""
        try:
            is_of_other_key = rows.is_of_unknown_key()
        except DatabaseError:  # there are no tables yet
            return
        if is_of_other_key:
            environment.discard_new_key()
            raise CommandError(_OTHER_KEY.format(place=_name_key_place()))

    def _clean_up_restore(self) -> None:
        """Undo a restore that was killed, or refuse to start and say what to do."""
        lock = nullcontext() if connection.vendor == "sqlite" else backup.lock_folder(settings.TOOLCARDS.data_dir)
        try:
            with lock:  # SQLite's folder is locked already; a restore of PostgreSQL may be under way
                backup.clean_up()
        except backup.BackupError as error:
            raise CommandError(str(error)) from error

    def _environment(self, host: str, port: int, workers: int, server: str) -> Environment:
        """Return the environment with the options applied; refuses harmful ones."""
        env = settings.TOOLCARDS.model_copy(update={"host": host, "port": port, "workers": workers})
        faults = [*checks.find_bind_faults(env), *checks.find_worker_faults(env)]
        if faults:
            raise CommandError("\n".join(f"{fault.msg} {fault.hint}" for fault in faults))
        if server == "daphne" and workers > 1:
            raise CommandError("Daphne supports only one process. Omit --workers or --server.")
        # Worker processes read the environment again.
        os.environ.update(TOOLCARDS_HOST=host, TOOLCARDS_PORT=str(port), TOOLCARDS_WORKERS=str(workers))
        return env

    def _bind(self, env: Environment) -> socket.socket:
        try:
            return serving.open_socket(env.host, env.port)
        except OSError as error:
            why = error.strerror or error
            raise CommandError(f"Cannot listen on {env.host}:{env.port}: {why}. Try `make run PORT=8001`.") from error

    def _banner(self, base: str, link: str, agent_key: str) -> None:
        """Print the server's address, and what is shown only once."""
        announcement = StartedServer(base, _get_public_url(base), settings.TOOLCARDS.data_dir, link, agent_key)
        is_for_machines = settings.TOOLCARDS.log == "json"
        text = announcement.to_json(has_terminal=self.stdout.isatty()) if is_for_machines else announcement.to_text()
        self.stdout.write(text)
        self.stdout.flush()


_OTHER_KEY = (
    "The data was sealed with another secret key than that of {place}. Without the right one, calls cannot be read and"
    " the audit trail cannot be checked, so Toolcards does not start. Put the key back, or, if you replaced it on"
    " purpose, name the earlier one in TOOLCARDS_SECRET_KEY_FALLBACKS. If it is lost, restore a backup with its key"
    " (`restore --with-key`), or begin with an empty folder (TOOLCARDS_DATA_DIR)."
)


def _name_key_place() -> str:
    return "TOOLCARDS_SECRET_KEY" if settings.TOOLCARDS.secret_key else str(settings.SECRET_KEY_FILE)


def _parse_port(text: str) -> int:
    """Return the port; rejects ports beyond 65535, which the system would wrap."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number from 0 to 65535")
    return int(text)


def _get_public_url(base: str) -> str:
    """Return the address for people of the server that listens at `base`."""
    return str(settings.TOOLCARDS.origins[0]) if settings.TOOLCARDS.origins else base


def _get_visible_host(host: str) -> str:
    """Return the host for a URL that works on this computer."""
    visible = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"[{visible}]" if ":" in visible and not visible.startswith("[") else visible


def _collect_static() -> None:
    """Compress and hash the static files, unless they are unchanged, since that takes seconds."""
    if settings.TOOLCARDS.plain_static:
        return
    stamp = settings.TOOLCARDS.data_dir / "static.stamp"
    now = _compute_static_fingerprint()
    if stamp.exists() and stamp.read_text() == now and settings.STATIC_ROOT.is_dir():
        return
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(now)


def _compute_static_fingerprint() -> str:
    """Return a digest of all static files and of the code that prepares them.

    Names, sizes and times of the files count.
    """
    digest = hashlib.sha256(f"{version('django')} {version('servestatic')}".encode())
    for finder in get_finders():
        for name, storage in finder.list([]):
            stat = Path(storage.path(name)).stat()
            digest.update(f"{name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@contextmanager
def _prepare_demo(url: str | None) -> Iterator[serving.Ready]:
    """Yield a function that starts the demo against `url`; ends it and its key."""
    if url is None:
        yield lambda: None
        return
    playing: list[subprocess.Popen[bytes]] = []
    with first_run.temporary_demo_key() as key:

        def play() -> None:
            command = [sys.executable, "-m", "toolcards", "demo", "--url", url]
            paths = os.pathsep.join(filter(None, [str(BASE_DIR), os.environ.get("PYTHONPATH")]))
            # The key is not on the command line, which every user of the computer can read.
            surroundings = {**os.environ, "PYTHONPATH": paths, "TOOLCARDS_AGENT_KEY": key}
            surroundings.pop("TOOLCARDS_AGENT_KEY_FILE", None)
            # In a new session, so that Ctrl+C reaches only the server, which ends the demo.
            playing.append(subprocess.Popen(command, env=surroundings, start_new_session=True))

        try:
            yield play
        finally:
            for process in playing:
                process.terminate()
                process.wait()
