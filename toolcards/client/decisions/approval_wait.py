"""Waiting for an approval over HTTP: the current decision, and how long to keep polling."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..transport.connection import ASKED_PATIENCE
from .answers import Decision

if TYPE_CHECKING:
    from ..gate_client import Toolcards

__all__ = ["LONGEST_WAIT", "POLL", "ApprovalWait"]

POLL = 25.0  # seconds that the server holds one poll
LONGEST_WAIT = 7 * 86_400.0  # seconds after which an unanswered approval counts as denied


class ApprovalWait:
    """One approval: the current decision, and the deadline of the wait."""

    def __init__(self, decision: Decision, seconds: float | None) -> None:
        self.decision = decision
        self._deadline = time.monotonic() + min(math.inf if seconds is None else seconds, LONGEST_WAIT)
        self._last_answer = time.monotonic()

    def next_step(self, cards: Toolcards) -> Callable[[], Decision]:
        """Return the next step, to run in any thread."""
        now = time.monotonic()
        if now >= self._deadline:
            return partial(cards.expire, self.decision)
        if now - self._last_answer > ASKED_PATIENCE:
            return partial(cards.deny_silent_server, self.decision)
        return partial(cards.look, self.decision, min(POLL, self._deadline - now))

    def update(self, decision: Decision) -> None:
        """Record a poll.

        `look` returns the identical decision if the server did not answer.
        """
        if decision is not self.decision:
            self.decision, self._last_answer = decision, time.monotonic()
