"""Runs the ASGI application on uvicorn or Daphne."""

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn
from django.template.loader import get_template
from uvicorn.importer import import_from_string
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from dashboard.environment import Environment
from dashboard.serving import http_protocol, ws_protocol
from dashboard.serving.limits import IDLE, SLACK
from toolcards.transports.background import worker_ends

APPLICATION = "dashboard.asgi:application"
ERROR_PAGES = ("404.html", "429.html", "500.html", "503.html")
log = logging.getLogger(__name__)

# Seconds for open requests at a shutdown; held polls and live sockets end at once.
FAREWELL = 5
ENDING = 1.0  # seconds that a worker without an answer has to turn out to have ended
STARTING = 60  # seconds that a new worker has to start
# TCP keep-alive: a peer silent for 30 seconds is probed every 10 seconds, and counts as gone after three probes.
PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # the second is for macOS

Ready = Callable[[], None]


class UvicornConfig(uvicorn.Config):
    """uvicorn's settings, which also tune the garbage collector after loading."""

    def load(self) -> None:
        """Load the application and exempt its modules from garbage collection.

        Loads the error pages as well, because in an outage files often cannot be opened.
        """
        super().load()
        supervisor = multiprocessing.parent_process()  # None without workers
        if supervisor is not None:
            threading.Thread(target=_stop_after, args=(supervisor,), daemon=True).start()
        for name in ERROR_PAGES:
            get_template(name)
        # Without a collection before: it takes 40 ms and finds 1,400 objects of 140,000.
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)


class UvicornServer(uvicorn.Server):
    """uvicorn's server, which reports when it listens."""

    def __init__(self, config: uvicorn.Config, *, ready: Ready) -> None:
        super().__init__(config)
        self._ready = ready
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        """See uvicorn, which looks ten times a second.

        Once is enough for the date in heads; a signal wakes the loop.
        """
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._stop.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See uvicorn."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has closed
                self._loop.call_soon_threadsafe(self._stop.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then report it."""
        await super().startup(sockets)
        if hasattr(signal, "SIGHUP"):  # closing the terminal stops the server like a stop signal
            signal.signal(signal.SIGHUP, self.handle_exit)
        if self.started:
            self._ready()


class UvicornSupervisor(Multiprocess):
    """uvicorn's supervisor of workers, which can also stop during a rolling restart."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.should_exit = _ExitFlag(self.signal_queue)
        self._answered_pids: set[int | None] = set()

    def keep_subprocess_alive(self) -> None:
        """See uvicorn.

        Logs and counts each worker that ended or does not answer. One that has not answered yet has more time.
        """
        lost_workers = [worker for worker in self.processes if not self._is_alive(worker)]
        if self.should_exit.is_set():  # Ctrl+C ends workers, too
            return
        for worker in lost_workers:
            worker.process.join(ENDING)  # a killed one closes its pipe before it can be seen to have ended
            is_hung = worker.process.is_alive()
            worker.process.kill()
            worker.process.join()
            reason = "did not answer and was killed" if is_hung else worker_ends.describe_exit(worker.exitcode)
            worker_ends.record_end(worker.pid or 0, reason)
        if lost_workers:  # all others have just answered
            super().keep_subprocess_alive()

    def _is_alive(self, worker: Process) -> bool:
        """Return whether the worker answers; a new one has time to start."""
        if worker.pid in self._answered_pids:
            return worker.is_alive(self.config.timeout_worker_healthcheck)
        deadline = time.monotonic() + STARTING
        while worker.process.is_alive() and time.monotonic() < deadline and not self.should_exit.is_set():
            if worker.ping(1):
                self._answered_pids.add(worker.pid)
                return True
        return False

    def restart_all(self) -> None:
        """See uvicorn. A new worker has more time to start."""
        log.info("replacing all workers one by one, as asked by a signal")
        alive, self.config.timeout_worker_healthcheck = self.config.timeout_worker_healthcheck, STARTING
        try:
            super().restart_all()
        finally:
            self.config.timeout_worker_healthcheck = alive


class _ExitFlag(threading.Event):
    """A flag that counts as set while a stop signal is pending.

    uvicorn handles a signal only after the current restart.
    """

    def __init__(self, signals: list[int]) -> None:
        super().__init__()
        self._signals = signals

    def is_set(self) -> bool:
        return super().is_set() or not {signal.SIGTERM, signal.SIGINT}.isdisjoint(self._signals)


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address (port 0: any); raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    server_socket = socket.socket(family, kind, protocol)
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    enable_keep_alive(server_socket)
    try:
        server_socket.bind(address)
    except OSError:
        server_socket.close()
        raise
    return server_socket


def enable_keep_alive(server_socket: socket.socket) -> None:
    """Turn on TCP keep-alive for all connections that the socket accepts.

    The connection of a peer that disappeared without closing it (power, cable, a suspended computer) ends after a
    minute. Otherwise it, and its run, would stay open forever.
    """
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            server_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def compute_max_message(env: Environment) -> int:
    """Return the socket message limit.

    It is above ours, so that the application answers 4413.
    """
    return 2 * env.max_frame + (64 << 10)


# ---------------------------------------------------------------- uvicorn


def run_uvicorn(env: Environment, server_socket: socket.socket, *, ready: Ready) -> None:
    """Serve until a signal comes."""
    config = UvicornConfig(
        APPLICATION,
        loop="auto",
        http=http_protocol.HttpProtocol,  # limits unknown peers
        ws=ws_protocol.WebSocketProtocol,  # so that back-pressure reaches the agent
        ws_max_size=compute_max_message(env),
        ws_per_message_deflate=False,
        lifespan="auto",
        log_config=None,
        access_log=False,  # paths name runs and calls; a proxy can log them
        server_header=False,
        proxy_headers=bool(env.proxy),
        forwarded_allow_ips=list(env.proxy),
        timeout_graceful_shutdown=FAREWELL,
        timeout_keep_alive=IDLE + SLACK,
        workers=env.workers,
    )
    if env.workers == 1:
        UvicornServer(config, ready=ready).run(sockets=[server_socket])
        return
    threading.Thread(target=_call_when_listening, args=(server_socket, ready), daemon=True).start()
    UvicornSupervisor(config, sockets=[server_socket]).run()


def _stop_after(supervisor: multiprocessing.process.BaseProcess) -> None:
    """Stop this worker once its supervisor has ended, for example killed.

    Otherwise it would keep the port, and no server could start there.
    """
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _call_when_listening(server_socket: socket.socket, ready: Ready) -> None:
    """Call `ready` once a worker listens on the socket that all of them share."""
    pause = threading.Event()
    while not pause.wait(0.1):
        with suppress(OSError), socket.socket(server_socket.family) as caller:
            caller.connect(server_socket.getsockname()[:2])
            break
    ready()


# ---------------------------------------------------------------- Daphne


def run_daphne(env: Environment, server_socket: socket.socket, *, ready: Ready) -> None:
    """Serve until a signal. For development: bodies are spooled, without back-pressure."""
    from dashboard.serving.daphne_server import DaphneServer  # installs Twisted's reactor, so only import it here

    application = import_from_string(APPLICATION)
    server_socket.listen(2048)
    server_socket.set_inheritable(True)
    lifespan = _Lifespan(application)

    def listening() -> None:
        lifespan.start()
        ready()

    try:
        DaphneServer(
            application,
            endpoints=[f"fd:fileno={server_socket.fileno()}"],
            server_name="",
            verbosity=0,
            websocket_max_message_size=compute_max_message(env),
            websocket_max_frame_size=compute_max_message(env),
            application_close_timeout=FAREWELL,
            farewell=FAREWELL,
            ready_callable=listening,
        ).run()
    finally:
        lifespan.stop()


class _Lifespan:
    """The start and end messages of ASGI, which Daphne does not send."""

    def __init__(self, application: Callable[..., Any]) -> None:
        self._application = application
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Send the start message, on the loop that is about to run."""
        self._messages.put_nowait({"type": "lifespan.startup"})
        self._task = asyncio.get_event_loop().create_task(self._run())

    def stop(self) -> None:
        """Send the end message on the stopped loop and wait."""
        if self._task and not self._task.done():
            self._messages.put_nowait({"type": "lifespan.shutdown"})
            waiting = asyncio.wait({self._task}, timeout=FAREWELL)
            self._task.get_loop().run_until_complete(waiting)

    async def _run(self) -> None:
        async def send(message: dict[str, Any]) -> None:
            if message["type"].endswith(".failed"):
                log.error("The application failed to start or stop: %s", message.get("message", ""))

        try:
            await self._application({"type": "lifespan", "asgi": {"version": "3.0"}}, self._messages.get, send)
        except Exception as error:  # an application may not support lifespans
            log.debug("No lifespan: %s", error)
