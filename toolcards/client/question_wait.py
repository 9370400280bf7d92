"""A question that a person was asked over HTTP: how it stands, and how long to go on looking."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .answers import Decision
from .connection import ASKED_PATIENCE

if TYPE_CHECKING:
    from .gate_client import Toolcards

__all__ = ["LONGEST_WAIT", "POLL", "ApprovalWait"]

POLL = 25.0  # seconds that one question for an answer is held open by the server
LONGEST_WAIT = 7 * 86_400.0  # seconds after which a question that nobody answers is given up in any case


class ApprovalWait:
    """A question that a person was asked: how it stands, and how long to go on looking."""

    def __init__(self, decision: Decision, seconds: float | None) -> None:
        self.decision = decision
        self._until = time.monotonic() + min(math.inf if seconds is None else seconds, LONGEST_WAIT)
        self._heard = time.monotonic()  # the server's last word

    def step(self, cards: Toolcards) -> Callable[[], Decision]:
        """Return what to do next; it may be done in another thread."""
        now = time.monotonic()
        if now >= self._until:
            return partial(cards.too_late, self.decision)
        if now - self._heard > ASKED_PATIENCE:
            return partial(cards.gone, self.decision)
        return partial(cards.look, self.decision, min(POLL, self._until - now))

    def saw(self, decision: Decision) -> None:
        """Take what came of it; `look` gives back the very decision it was given where the server said nothing."""
        if decision is not self.decision:
            self.decision, self._heard = decision, time.monotonic()
