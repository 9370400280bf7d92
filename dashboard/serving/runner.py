"""Runs the ASGI application on uvicorn or Daphne."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uvicorn.importer import import_from_string

from dashboard.environment import Environment
from dashboard.serving import http_protocol, ws_protocol
from dashboard.serving.limits import IDLE, SLACK
from dashboard.serving.processes.supervisor import UvicornSupervisor
from dashboard.serving.processes.uvicorn_server import Ready, UvicornConfig, UvicornServer

APPLICATION = "dashboard.asgi:application"
log = logging.getLogger(__name__)

# Seconds for open requests at a shutdown; held polls and live sockets end at once.
SHUTDOWN_SECONDS = 5
# TCP keep-alive: a peer silent for 30 seconds is probed every 10 seconds, and counts as gone after three probes.
PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # the second is for macOS
# Bytes that the system keeps unsent. Without a limit it takes megabytes for a peer that reads nothing.
BUFFER = {"TCP_NOTSENT_LOWAT": 1 << 17}


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address (port 0: any); raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    server_socket = socket.socket(family, kind, protocol)
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    limit_silent_peers(server_socket)
    try:
        server_socket.bind(address)
    except OSError:
        server_socket.close()
        raise
    return server_socket


def limit_silent_peers(server_socket: socket.socket) -> None:
    """Limit what peers cost that are gone or read nothing.

    All connections that the socket accepts inherit this. With TCP keep-alive, the connection of a peer that disappeared
    without closing it (power, cable, a suspended computer) ends after a minute. Otherwise it, and its run, would stay
    open forever.
    """
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {**PROBES, **BUFFER}.items():
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
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=IDLE + SLACK,
        workers=env.workers,
    )
    if env.workers == 1:
        UvicornServer(config, ready=ready).run(sockets=[server_socket])
        return
    threading.Thread(target=_call_when_listening, args=(server_socket, ready), daemon=True).start()
    UvicornSupervisor(config, sockets=[server_socket]).run()


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
            application_close_timeout=SHUTDOWN_SECONDS,
            close_seconds=SHUTDOWN_SECONDS,
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
            waiting = asyncio.wait({self._task}, timeout=SHUTDOWN_SECONDS)
            self._task.get_loop().run_until_complete(waiting)

    async def _run(self) -> None:
        async def send(message: dict[str, Any]) -> None:
            if message["type"].endswith(".failed"):
                log.error("The application failed to start or stop: %s", message.get("message", ""))

        try:
            await self._application({"type": "lifespan", "asgi": {"version": "3.0"}}, self._messages.get, send)
        except Exception as error:  # an application may not support lifespans
            log.debug("No lifespan: %s", error)
