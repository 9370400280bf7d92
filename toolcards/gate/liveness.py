"""Run liveness: agents that are lost or come back, and the permits that the end of a run voids."""

from __future__ import annotations

from toolcards.core import facts as f
from toolcards.gate.memory import RunMemory
from toolcards.gate.transaction import Transaction
from toolcards.gate.work import Action

LOST = "The agent is away: its connection was lost."
KEPT = " What people are asked, or approve, is kept for it until its time limit."


class Lose(Action):
    """End a run whose agent did not come back in its grace time.

    Questions and approvals keep their time limits, unless the agent sent heartbeats: without them it is gone for good.
    """

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run = run

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        memory = tx.existing(self.run)
        memory.row.refresh_from_db(fields=["alive_until", "beats"])
        until = memory.row.alive_until
        if until is None or until > tx.now or memory.status not in ("running", "waiting"):
            return
        memory.row.alive_until, memory.touched = None, True
        if memory.board.context.away:  # lost before; what was kept is still asked
            return
        away = not memory.row.beats
        kept = away and any(card.kept for card in memory.board.open_cards())
        memory.row.reason = LOST + KEPT * kept
        tx.tell(memory, f.RunEnded(outcome="truncated", reason=LOST, away=away, at=tx.now))
        forfeit(tx, memory)


def come_back(tx: Transaction, memory: RunMemory) -> None:
    """Go on with a run whose agent was away."""
    if memory.board.context.away:
        memory.row.reason = ""
        tx.tell(memory, f.RunStarted(at=tx.now))


def forfeit(tx: Transaction, memory: RunMemory) -> None:
    """Void what rules allowed and nobody claimed, since the run is over; what runs has an unknown end."""
    for card in list(memory.board.cards.values()):
        if card.permit is not None and card.permit.state in _FORFEITED:
            moved = f.PermitMoved(card.call_id, _FORFEITED[card.permit.state], card.permit.id, tx.now)
            tx.tell(memory, moved, card)


_FORFEITED = {"issued": "void", "claimed": "unknown"}
