"""Plug-ins are asked beside the writer: between two commits, in threads of their own.

A call that `before` plug-ins want to hear of is written down as asked for, but not judged: the writer goes on at once,
and what it leaves is an `Inquiry`. Its `Heard` is handed in with the next piece of writing, where it counts only for
exactly the call that was asked about. Whatever is not heard in time is a no. Nobody is asked twice at the same time.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from toolcards import hooks
from toolcards.core.calls.card import Card
from toolcards.core.calls.tool_events import attempt_of

log = logging.getLogger(__name__)
MAX_CONCURRENT_INQUIRIES = 16  # calls that plug-ins are asked about at the same time
MAX_QUEUE_SECONDS = 10.0  # seconds that an inquiry may wait for its turn; above it the answer is no


@dataclass(frozen=True)
class PluginInquiry:
    """A call that plug-ins must hear of before it is judged. `args_sha256`: of the input they are shown."""

    run: int
    ordinal: int
    attempt: int
    tool: str
    args_sha256: str
    asked_sha256: str  # of the input as it was asked for, before any repair
    payload: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two inquiries the same."""
        return self.run, self.ordinal, self.attempt, self.tool, self.args_sha256

    def about(self, run: int, card: Card, args_sha256: str) -> bool:
        """Return whether the call is still the one that was asked about."""
        return self.key == (run, card.ordinal, attempt_of(card), card.tool.name, args_sha256)


@dataclass(frozen=True)
class PluginResult:
    """What the plug-ins say to an inquiry, and the seconds they took."""

    inquiry: PluginInquiry
    verdict: hooks.Verdict
    seconds: float = 0.0


_pool = ThreadPoolExecutor(MAX_CONCURRENT_INQUIRIES, thread_name_prefix="hooks")
_lock = threading.Lock()
_open: dict[tuple[Any, ...], Future[PluginResult]] = {}


def start_inquiry(inquiry: PluginInquiry) -> Future[PluginResult]:
    """Ask the plug-ins in a thread of ours; return where their answer will be. It never holds an exception."""
    with _lock:
        asked = _open.get(inquiry.key)
        if asked is not None:
            return asked
        asked = _open[inquiry.key] = Future()
    try:
        _pool.submit(_run_inquiry, inquiry, asked, time.monotonic())
    except RuntimeError:  # the process is about to end
        _finish_inquiry(inquiry, asked, PluginResult(inquiry, hooks.no_time()))
    return asked


def _run_inquiry(inquiry: PluginInquiry, asked: Future[PluginResult], since: float) -> None:
    began = time.monotonic()
    try:
        verdict = hooks.no_time() if began - since > MAX_QUEUE_SECONDS else hooks.consult(inquiry.payload)
    except BaseException as error:  # ours to mend; until then it is a no
        log.exception("hooks: %s could not be asked about", inquiry.payload.get("call_id"))
        verdict = hooks.crashed(error)
    _finish_inquiry(inquiry, asked, PluginResult(inquiry, verdict, time.monotonic() - began))


def _finish_inquiry(inquiry: PluginInquiry, asked: Future[PluginResult], heard: PluginResult) -> None:
    with _lock:
        _open.pop(inquiry.key, None)
    asked.set_result(heard)
