"""uvicorn's server, with what this application needs in its process."""

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn
from django.template.loader import get_template

from toolcards.transports.background import activity

UNUSED_SECONDS = 10.0  # seconds between two looks while no one uses the process
ERROR_PAGES = ("404.html", "429.html", "500.html", "503.html")

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

    def __init__(self, config: uvicorn.Config, *, ready: Ready = lambda: None) -> None:
        super().__init__(config)
        self._ready = ready
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        """See uvicorn, which looks ten times a second.

        Once is enough for the date in heads, and rarely while no one uses the process; a signal wakes the loop.
        """
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            self._stop.clear()
            await activity.sleep(1.0, UNUSED_SECONDS, self._stop)

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


def _stop_after(supervisor: multiprocessing.process.BaseProcess) -> None:
    """Stop this worker once its supervisor has ended, for example killed.

    Otherwise it would keep the port, and no server could start there.
    """
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
