"""The supervisor of several server processes. It sleeps until one of them ends, a signal comes, or a look is due."""

import contextlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import wait

import uvicorn
from uvicorn.supervisors import Multiprocess, multiprocess
from uvicorn.supervisors.multiprocess import Process

from dashboard.serving.processes.uvicorn_server import UvicornServer
from toolcards.transports.background import worker_ends

log = logging.getLogger(__name__)
LOOK_SECONDS = 5.0  # seconds between two looks whether all workers answer
ENDING = 1.0  # seconds that a worker without an answer has to turn out to have ended
STARTING = 60  # seconds that a new worker has to start


class _Worker(Process):
    """uvicorn's worker with our server."""

    @property
    def server(self) -> uvicorn.Server:
        if self._server is None:
            self._server = UvicornServer(self.config)
        return self._server


multiprocess.Process = _Worker  # type: ignore[misc]  # uvicorn has no setting for it


class UvicornSupervisor(Multiprocess):
    """uvicorn's supervisor of workers, which can also stop during a rolling restart."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._exit_flag = _ExitFlag(self.signal_queue, self.processes)
        self.should_exit = self._exit_flag
        self._answered_pids: set[int | None] = set()

    def run(self) -> None:
        """See uvicorn, which looks twice a second."""
        with self._exit_flag.hear_signals():
            super().run()

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
    """A flag that counts as set while a stop signal is pending: uvicorn handles signals after the current restart."""

    def __init__(self, signals: list[int], workers: list[Process]) -> None:
        super().__init__()
        self._signals = signals
        self._workers = workers
        self._signal_reader, self._signal_writer = socket.socketpair()

    def is_set(self) -> bool:
        return super().is_set() or not {signal.SIGTERM, signal.SIGINT}.isdisjoint(self._signals)

    @contextlib.contextmanager
    def hear_signals(self) -> Iterator[None]:
        """Let signals end `wait` during the block."""
        for end in (self._signal_reader, self._signal_writer):
            end.setblocking(False)
        earlier = signal.set_wakeup_fd(self._signal_writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(earlier)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until a worker ends, a signal comes, or `LOOK_SECONDS` pass."""
        if not super().is_set():
            wait([self._signal_reader, *(worker.process.sentinel for worker in self._workers)], LOOK_SECONDS)
            with contextlib.suppress(BlockingIOError):
                self._signal_reader.recv(4096)
        return super().is_set()
