"""Run liveness: leases, lost and returning agents, and the permits that the end of a run voids.

A run has a lease, `alive_until` in working time (toolcards/clocks.py), which every sign of its agent renews. When it
ends, the run counts as lost. Pauses of the server do not use up leases.
"""

from __future__ import annotations

import math

from django.conf import settings

from toolcards.core.calls import facts as f
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval

LOST_REASON = "The agent is away: it has not sent anything."
KEPT_HINT = " Pending and unused approvals are kept until their time limits."
BEAT_LEASE = 60.0  # seconds without a heartbeat after which a run with heartbeats counts as lost
REQUEST_LEASE = 3_600.0  # seconds without a request after which a run of HTTP requests counts as lost
LEASE_SLACK = 1 / 60  # of a lease, by which a run can count as lost too early
POLL_LEASE = 180.0  # seconds without a poll after which an agent with only open approvals is away


class LoseRun(Command):
    """End a run whose agent did not return within its lease.

    Approvals keep their time limits, unless the agent sends heartbeats: then it does not return.
    """

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run = run

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        memory = tx.load_run(self.run)
        lease_end = memory.row.alive_until
        if lease_end is None or lease_end > tx.working or memory.status not in ("running", "waiting"):
            return
        memory.row.alive_until, memory.touched = None, True
        if memory.board.context.away:  # lost before; its approvals are still open
            return
        is_away = not memory.row.beats
        kept_cards = [card for card in memory.board.list_open_cards() if is_away and card.outlives_agent]
        memory.row.reason = LOST_REASON + KEPT_HINT * bool(kept_cards)
        tx.record(memory, f.RunEnded(outcome="truncated", reason=LOST_REASON, away=is_away, at=tx.now))
        for card in kept_cards:
            tx.record(
                memory, f.AgentPresenceChanged(card.call_id, away=True, at=tx.now), memory.board.cards[card.ordinal]
            )
        void_permits(tx, memory)


def resume_run(tx: Transaction, memory: RunMemory) -> None:
    """Resume a run whose agent was away."""
    if not memory.board.context.away:
        return
    memory.row.reason = ""
    tx.record(memory, f.RunStarted(at=tx.now))
    for card in memory.board.list_open_cards():
        if card.approval is not None and card.approval.away:
            tx.record(memory, f.AgentPresenceChanged(card.call_id, away=False, at=tx.now), card)


def note_request(tx: Transaction, memory: RunMemory, lease: float = REQUEST_LEASE) -> None:
    """Renew the lease after a request; resume a lost run."""
    resume_run(tx, memory)
    lease = BEAT_LEASE if memory.row.beats else lease
    _move_lease(memory, max(memory.row.alive_until or 0.0, tx.working + lease), lease)


def _move_lease(memory: RunMemory, end: float, lease: float) -> None:
    """Move the end of the lease; write the run for it only if it moves by more than LEASE_SLACK.

    Otherwise an answer that changes nothing else would wait for the disk.
    """
    stored_end = memory.row.alive_until or 0.0
    memory.row.alive_until = end
    if abs(end - stored_end) > lease * LEASE_SLACK:
        memory.touched = True


def note_poll(tx: Transaction, memory: RunMemory) -> None:
    """Renew the lease because of a poll of an open approval.

    Without another poll, the agent counts as away after POLL_LEASE, unless one of its calls may be running.
    """
    note_request(tx, memory, POLL_LEASE)
    deadline = tx.working + POLL_LEASE
    if deadline < (memory.row.alive_until or 0.0) < math.inf and not _find_http_calls(memory)[1]:
        _move_lease(memory, deadline, POLL_LEASE)


def renew_lease(tx: Transaction, memory: RunMemory, lease: float) -> None:
    """Renew the lease for a connection that sends frames.

    `lease`: seconds, math.inf for a stream that has ended.
    Calls asked over HTTP outlast the connection: the agent may be polling or running an allowed call.
    """
    has_calls, may_run = _find_http_calls(memory)
    if lease == math.inf and not memory.board.context.ended:
        lease = REQUEST_LEASE if has_calls else settings.TOOLCARDS.grace
    elif has_calls and not memory.row.beats:
        lease = max(lease, REQUEST_LEASE if may_run else POLL_LEASE)
    memory.row.alive_until, memory.touched = tx.working + lease, True


def _find_http_calls(memory: RunMemory) -> tuple[bool, bool]:
    """Return whether calls asked over HTTP are open, and whether any of them may already run."""
    if not memory.has_approvals:
        return False, False
    rows = Approval.objects.filter(run_id=memory.row.pk, channel="http", opener="gate")
    states = set(rows.filter(state__in=("pending", "approved", "claimed")).values_list("state", "asked"))
    return bool(states), any(state == "claimed" or not needs_person for state, needs_person in states)


def void_permits(tx: Transaction, memory: RunMemory) -> None:
    """Void the permits of a run that has ended.

    If only a part of the run has ended, those of the calls that ended with it. Claimed permits get an unknown outcome.
    """
    has_ended = bool(memory.board.context.ended)
    for card in list(memory.board.cards.values()):
        if card.permit is not None and card.permit.state in _VOID_STATES and (has_ended or card.finished):
            change = f.PermitChanged(card.call_id, _VOID_STATES[card.permit.state], card.permit.id, tx.now)
            tx.record(memory, change, card)


_VOID_STATES = {"issued": "void", "claimed": "unknown"}
