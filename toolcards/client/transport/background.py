"""Requests in threads that do not hold up the exit, and requests that are sent until the server has them.

The exit waits for what must reach the server, for EXIT_PATIENCE seconds in all. Threads of `threads.get_pool` would be
waited for without a limit, so only functions of the agent run there.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .http_client import Unreachable

__all__ = ["EXIT_PATIENCE", "LateRequests", "finish", "is_final", "start", "wait_for_unfinished"]

T = TypeVar("T")
EXIT_PATIENCE = 2.0  # seconds that the exit of the process waits
PATIENCE = 120.0  # seconds for which a request is sent again
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0  # seconds between two attempts
UNKNOWN_ATTEMPTS = 4  # attempts at a call that the server does not know: its question may still be on the way
MAX_LATE = 1_000  # requests
_unfinished: dict[int, set[Future[Any]]] = {}  # by process: a forked child has no thread of its parent


def start(function: Callable[..., T], *args: Any) -> Future[T]:
    """Run a function in a thread that ends with the process."""
    future: Future[T] = Future()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = function(*args)
        except BaseException as error:  # for the one who waits
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=work, name="toolcards-request", daemon=True).start()
    return future


def finish(function: Callable[..., T], *args: Any) -> Future[T]:
    """Do the same for what must reach the server.

    The exit of the process waits for it, see `wait_for_unfinished`.
    """
    futures = _unfinished.setdefault(os.getpid(), set())
    future = start(function, *args)
    futures.add(future)
    future.add_done_callback(futures.discard)
    return future


def wait_for_unfinished(seconds: float = EXIT_PATIENCE) -> None:
    """Wait up to `seconds` for what must reach the server.

    Also for what it starts meanwhile.
    """
    end = time.monotonic() + seconds
    while (waiting := set(_unfinished.get(os.getpid(), ()))) and (remaining := end - time.monotonic()) > 0:
        concurrent.futures.wait(waiting, remaining)


atexit.register(wait_for_unfinished)


def is_final(error: Unreachable) -> bool:
    """Return whether the server refused the request permanently."""
    return 400 <= error.status < 500 and error.status != 429


@dataclass(slots=True, eq=False)
class _LateRequest:
    """One request, and until when it is sent again."""

    path: str
    body: dict[str, Any]
    deadline: float = field(default_factory=lambda: time.monotonic() + PATIENCE)
    attempts: int = 0


class LateRequests:
    """POSTs that the server did not answer, sent again in order until it has them. Never blocks or raises.

    Only for requests that change nothing when they are repeated.
    """

    def __init__(self, send: Callable[[str, str, Any], Any]) -> None:
        self._send = send
        self._begin()

    def _begin(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()
        self._requests: deque[_LateRequest] = deque()
        self._is_sending = False

    def add(self, path: str, body: dict[str, Any]) -> None:
        """Send the request in the background for up to PATIENCE seconds."""
        if self._process != os.getpid():  # a forked child: the parent sends what it has
            self._begin()
        with self._lock:
            if len(self._requests) < MAX_LATE and all(
                (each.path, each.body) != (path, body) for each in self._requests
            ):
                self._requests.append(_LateRequest(path, body))
            if self._is_sending:
                return
            self._is_sending = True
        try:
            finish(self._send_all)
        except RuntimeError:  # the interpreter starts no threads any more
            with self._lock:
                self._is_sending = False

    def discard(self, path: str, body: dict[str, Any]) -> None:
        """Drop the request unless it is being sent."""
        with self._lock:
            waiting = list(self._requests)[self._is_sending :]
            for each in waiting:
                if (each.path, each.body) == (path, body):
                    self._requests.remove(each)

    def _send_all(self) -> None:
        while True:
            with self._lock:
                if not self._requests:
                    self._is_sending = False
                    return
                request = self._requests[0]
            self._deliver(request)
            with self._lock:
                self._requests.popleft()

    def _deliver(self, request: _LateRequest) -> None:
        pause = FIRST_PAUSE
        while time.monotonic() < request.deadline:
            request.attempts += 1
            try:
                self._send("POST", request.path, request.body)
            except Unreachable as error:
                is_unknown = error.status == 404 and request.attempts < UNKNOWN_ATTEMPTS
                if is_final(error) and not is_unknown:
                    return
            except (TypeError, ValueError):  # not JSON
                return
            else:
                return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
