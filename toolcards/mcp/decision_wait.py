"""Waiting for a person, which can be stopped at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from toolcards.client import Decision, Toolcards

PAUSE = 0.1  # seconds between checks for a cancellation


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
