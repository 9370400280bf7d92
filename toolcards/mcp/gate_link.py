"""The gateway's link to the gate after a question: the wait for its answer, results, heartbeats, the end of the run."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from toolcards.client import Decision, Toolcards

PAUSE = 0.1  # seconds between checks for a cancellation
BEAT = 20.0  # seconds between heartbeats; the server counts a run as lost after 60
LINGER = 5.0  # seconds that the end of a session waits for its reports
MAX_WAITING = 2_000  # reports


def wait_for_answer(cards: Toolcards, decision: Decision, is_stopped: Callable[[], bool]) -> Decision:
    """Return the final decision, or the current one when stopped."""
    if not decision.waiting:
        return decision
    answers: list[Decision] = []
    waiter = threading.Thread(target=lambda: answers.append(cards.wait(decision, stopped=is_stopped)), daemon=True)
    waiter.start()
    while waiter.is_alive() and not is_stopped():
        waiter.join(PAUSE)
    return answers[0] if answers else decision


class Reports:
    """Sends the reports of one run in order, in a separate thread, so that messages do not wait for the server."""

    def __init__(self, cards: Toolcards, run: str) -> None:
        self._cards, self._run = cards, run
        self._queue: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue(MAX_WAITING)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Start sending heartbeats, before the first call of the run."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, daemon=True)
                self._thread.start()

    def add(self, call: str, **outcome: Any) -> None:
        """Queue the result of a call."""
        self.begin()
        try:
            self._queue.put_nowait((call, outcome))
        except queue.Full:  # the server was down for long: the calls are marked `lost` when the run ends
            return

    def close(self) -> None:
        """Send the queued reports and the end, within LINGER seconds."""
        if self._thread is None:
            return
        deadline = time.monotonic() + LINGER
        with contextlib.suppress(queue.Full):  # the server is down: the run ends by its silence
            self._queue.put(None, timeout=LINGER)
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _send_all(self) -> None:
        while True:
            try:
                report = self._queue.get(timeout=BEAT)
            except queue.Empty:
                self._cards.beat(self._run)
                continue
            if report is None:
                break
            call, outcome = report
            self._cards.result(self._run, call, **outcome)  # sends it again while the server is away
        self._cards.end(self._run)
