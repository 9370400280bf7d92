"""Consults `before` plugins about calls, in a thread pool, between two commits of the writer.

The writer records a call that plugins must see first, without a decision, and returns a `PluginInquiry`. The next
command for the call carries the `PluginResult`, which counts only for exactly the call of the inquiry. A timeout
denies the call. Concurrent inquiries about the same call share one result.
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
from toolcards.core.calls.tool_events import get_attempt

log = logging.getLogger(__name__)
MAX_CONCURRENT_INQUIRIES = 16
MAX_QUEUE_SECONDS = 10.0  # an inquiry that waits longer for a thread denies its call


@dataclass(frozen=True)
class PluginInquiry:
    """A call that plugins must see before it is decided."""

    run: int
    ordinal: int
    attempt: int
    tool: str
    args_sha256: str  # digest of the input that the plugins see
    requested_sha256: str  # digest of the input as the agent sent it, before any repair
    payload: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """Return what identifies the call of the inquiry."""
        return self.run, self.ordinal, self.attempt, self.tool, self.args_sha256

    def matches(self, run: int, card: Card, args_sha256: str) -> bool:
        """Return whether the card is still the call of this inquiry."""
        return self.key == (run, card.ordinal, get_attempt(card), card.tool.name, args_sha256)


@dataclass(frozen=True)
class PluginResult:
    """The verdict of the plugins on an inquiry, and how many seconds they took."""

    inquiry: PluginInquiry
    verdict: hooks.Verdict
    seconds: float = 0.0


_pool = ThreadPoolExecutor(MAX_CONCURRENT_INQUIRIES, thread_name_prefix="hooks")
_lock = threading.Lock()
_open: dict[tuple[Any, ...], Future[PluginResult]] = {}


def start_inquiry(inquiry: PluginInquiry) -> Future[PluginResult]:
    """Consult the plugins in the thread pool; return the future result.

    The future never raises: failures of plugins are verdicts.
    """
    with _lock:
        future = _open.get(inquiry.key)
        if future is not None:
            return future
        future = _open[inquiry.key] = Future()
    try:
        _pool.submit(_run_inquiry, inquiry, future, time.monotonic())
    except RuntimeError:  # the process is about to end
        _finish_inquiry(inquiry, future, PluginResult(inquiry, hooks.build_timeout_verdict()))
    return future


def _run_inquiry(inquiry: PluginInquiry, future: Future[PluginResult], submitted_at: float) -> None:
    started_at = time.monotonic()
    try:
        is_too_late = started_at - submitted_at > MAX_QUEUE_SECONDS
        verdict = hooks.build_timeout_verdict() if is_too_late else hooks.consult(inquiry.payload)
    except BaseException as error:  # a bug of the gate denies the call
        log.exception("hooks: consulting plugins about call %s failed", inquiry.payload.get("call_id"))
        verdict = hooks.build_crash_verdict(error)
    _finish_inquiry(inquiry, future, PluginResult(inquiry, verdict, time.monotonic() - started_at))


def _finish_inquiry(inquiry: PluginInquiry, future: Future[PluginResult], result: PluginResult) -> None:
    with _lock:
        _open.pop(inquiry.key, None)
    future.set_result(result)
