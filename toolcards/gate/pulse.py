"""The pulse of the installation as a piece of writing: a small one that tells that this process can write."""

from __future__ import annotations

from toolcards.gate import timekeeping
from toolcards.gate.transaction import Transaction
from toolcards.gate.work import Action


class Beat(Action):
    """Move the pulse on to now; the answer is the wall time where it was, None for the first beat ever."""

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        self.answer = timekeeping.move_on()
