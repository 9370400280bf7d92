"""The pulse of the installation as a piece of writing: a small one that tells that this process can write."""

from __future__ import annotations

from toolcards.gate.writer import timekeeping
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction


class Beat(Command):
    """Move the pulse on to now; the answer is the wall time where it was, None for the first beat ever."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = timekeeping.advance_pulse()
