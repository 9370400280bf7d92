"""Run liveness: leases, agents that are lost or come back, and the permits that the end of a run voids.

A run has a lease, `alive_until` in working time (toolcards/clocks.py), which every sign of its agent renews. Without a
sign until then the run is lost. Pauses of our own use up no lease.
"""

from __future__ import annotations

import math

from django.conf import settings

from toolcards.core.calls import facts as f
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval

LOST_REASON = "The agent is away: nothing was heard from it."
KEPT_HINT = " What people are asked, or approve, is kept for it until its time limit."
BEAT_LEASE = 60.0  # seconds without a heartbeat after which a run that has beaten once counts as lost
REQUEST_LEASE = 3_600.0  # seconds without a request after which a run counts as lost whose agent sends requests
POLL_LEASE = 180.0  # seconds without a poll after which an agent with nothing but open questions is away


class LoseRun(Command):
    """End a run whose agent did not come back in its grace time.

    Questions and approvals keep their time limits, unless the agent sent heartbeats: without them it is gone for good.
    """

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run = run

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        memory = tx.load_run(self.run)
        until = memory.row.alive_until
        if until is None or until > tx.working or memory.status not in ("running", "waiting"):
            return
        memory.row.alive_until, memory.touched = None, True
        if memory.board.context.away:  # lost before; what was kept is still asked
            return
        away = not memory.row.beats
        kept = [card for card in memory.board.list_open_cards() if away and card.outlives_agent]
        memory.row.reason = LOST_REASON + KEPT_HINT * bool(kept)
        tx.record(memory, f.RunEnded(outcome="truncated", reason=LOST_REASON, away=away, at=tx.now))
        for card in kept:
            tx.record(
                memory, f.AgentPresenceChanged(card.call_id, away=True, at=tx.now), memory.board.cards[card.ordinal]
            )
        void_permits(tx, memory)


def resume_run(tx: Transaction, memory: RunMemory) -> None:
    """Go on with a run whose agent was away."""
    if not memory.board.context.away:
        return
    memory.row.reason = ""
    tx.record(memory, f.RunStarted(at=tx.now))
    for card in memory.board.list_open_cards():
        if card.approval is not None and card.approval.away:
            tx.record(memory, f.AgentPresenceChanged(card.call_id, away=False, at=tx.now), card)


def note_request(tx: Transaction, memory: RunMemory, lease: float = REQUEST_LEASE) -> None:
    """Note a request of the run's agent: it is there for now, and its run goes on."""
    resume_run(tx, memory)
    lease = BEAT_LEASE if memory.row.beats else lease
    memory.row.alive_until, memory.touched = max(memory.row.alive_until or 0.0, tx.working + lease), True


def renew_lease(tx: Transaction, memory: RunMemory, lease: float) -> None:
    """Renew the lease of a run for a connection that sends its frames; math.inf for a whole stream that has ended.

    What the agent asked over HTTP outlasts the connection: it may be polling, or running what it was allowed.
    """
    polled, runs = _find_http_calls(memory)
    if lease == math.inf and not memory.board.context.ended:
        lease = REQUEST_LEASE if polled else settings.TOOLCARDS.grace
    elif polled and not memory.row.beats:
        lease = max(lease, REQUEST_LEASE if runs else POLL_LEASE)
    memory.row.alive_until, memory.touched = tx.working + lease, True


def _find_http_calls(memory: RunMemory) -> tuple[bool, bool]:
    """Return whether calls that were asked for over HTTP are open, and whether any may run already."""
    rows = Approval.objects.filter(run_id=memory.row.pk, channel="http", opener="gate")
    states = set(rows.filter(state__in=("pending", "approved", "claimed")).values_list("state", "asked"))
    return bool(states), any(state == "claimed" or not asked for state, asked in states)


def void_permits(tx: Transaction, memory: RunMemory) -> None:
    """Void what rules allowed and nobody claimed, since the run is over; what runs has an unknown end."""
    for card in list(memory.board.cards.values()):
        if card.permit is not None and card.permit.state in _VOID_STATES:
            moved = f.PermitChanged(card.call_id, _VOID_STATES[card.permit.state], card.permit.id, tx.now)
            tx.record(memory, moved, card)


_VOID_STATES = {"issued": "void", "claimed": "unknown"}
