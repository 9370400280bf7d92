"""The pulse of the installation: a small write that tells that a server process is there and can write."""

from __future__ import annotations

from toolcards.gate.transaction import Transaction
from toolcards.gate.work import Action
from toolcards.models import Pulse


class Beat(Action):
    """Move the pulse on to now; the answer is where it was, None for the first beat ever."""

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        row = Pulse.objects.select_for_update().filter(pk=1).first()
        self.answer = None if row is None else row.at
        Pulse.objects.update_or_create(pk=1, defaults={"at": tx.now})
