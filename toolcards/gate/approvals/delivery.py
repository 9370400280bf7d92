"""Delivery of decisions to the agent: one connection claims each and sends it.

A connection that can tell what its peer has received waits for the receipt, and until then the decision is not
delivered: it is released when the connection ends, and other connections can claim it after `RECEIPT_SECONDS`. So an
agent that reconnects gets what it did not receive, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from toolcards.adapters import ADAPTERS, ApprovalAnswer
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.gate.approvals.permits import build_decision_with_permit, expire_permit, has_expired_unused
from toolcards.gate.approvals.votes import Ballot, CastVote
from toolcards.gate.decisions.recheck import recheck_approval
from toolcards.gate.decisions.responses import get_approval_effect
from toolcards.gate.refusals import NotAllowed
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import ApprovalCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import AgentKey, Approval, Run, prepared_selects


# Votes from browsers: the session's person is looked up in the transaction of the vote, once for each commit.
class Voter(NamedTuple):
    """A person who is signed in, and since when (epoch seconds)."""

    person: Any
    signed_in_at: float


class VotedCall(NamedTuple):
    """A call after a vote: its run with the source, its primary key, and its card."""

    run: Run
    pk: int
    card: Card


class CastSessionVote(CastVote):
    """The vote of the person whose session it is. The answer is a VotedCall."""

    def __init__(self, session: str, find_voter: Callable[[], Voter | None], ballot: Ballot) -> None:
        super().__init__(None, ballot)
        self.session, self.find_voter = session, find_voter

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        voter = prepared_selects.recall((CastSessionVote, self.session), self.find_voter)
        # The check of every vote comes later, and not at all for a repeated vote, whose answer is the card.
        if voter is None or not voter.person.has_perm("toolcards.vote"):
            raise NotAllowed("Sign in as a person who can vote.")
        self.person, self.ballot = voter.person, replace(self.ballot, signed_in_at=voter.signed_in_at)
        super().apply(tx)
        run = tx.load_run(self.row.run_id).row
        assert run.source is not None  # read here if it is not cached, because the event loop reads nothing
        self.answer = VotedCall(run, self.row.call_id, self.answer)


RECEIPT_SECONDS = 5.0  # working seconds without a receipt after which another connection can send the decision


class ClaimDelivery(ApprovalCommand):
    """Claim a decision for sending. Answers the decision object, None if another connection claimed it.

    `key`: the primary key of the connection's agent key, which may have been revoked since the connection was opened.
    `connection`: the name of a connection that waits for the receipt; without one, what is claimed is delivered.
    """

    def __init__(self, approval: str, key: int = 0, connection: str = "") -> None:
        super().__init__(approval)
        self.key, self.connection = key, connection

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = None
        if self.key and not AgentKey.objects.live().filter(pk=self.key).exists():
            raise NotAllowed("This key was revoked.", code="revoked")
        row = approval_rows.load_approval(self.approval)
        if row is None or row.delivered_at is not None or (row.channel != "hook" and row.held_until > tx.working):
            return
        was_sent = row.channel != "hook" and row.held_until > 0
        approval_rows.update_approval(row.id, **self._build_receipt(tx))
        memory = tx.load_run(row.run_id)
        if not was_sent or _reopen(tx, memory, row):
            self.answer = self._build_decision(tx, memory, row)
        if self.answer is None and self.connection:
            approval_rows.update_approval(row.id, delivered_at=tx.now)

    def _build_receipt(self, tx: Transaction) -> dict[str, Any]:
        if not self.connection:
            return {"delivered_at": tx.now}
        return {"held_until": tx.working + RECEIPT_SECONDS, "claimed_by": self.connection}

    def _build_decision(self, tx: Transaction, memory: RunMemory, row: Approval) -> dict[str, Any] | None:
        """Return the decision to send, None if the approval has no answer of its own."""
        card = approval_rows.get_card(memory, row)
        if card.approval is None or card.approval.id != row.id:
            return None  # a newer approval of the call superseded it and is delivered instead
        if has_expired_unused(row, tx.working):  # the sweep has not run yet
            expire_permit(tx, memory, row, card)
            card = memory.board.cards[card.ordinal]
        elif row.state == "approved" and row.opener == "gate":
            refusal = recheck_approval(tx, memory, row, card, can_wait=row.channel == "socket")
            card = memory.board.cards[card.ordinal]
            if refusal is not None and card.waiting:
                return None  # a new approval was opened; its decision is delivered later
        decision: dict[str, Any] = build_decision_with_permit(memory, card, is_claimed=True)
        if row.opener == "agent":
            decision |= {"decision": get_approval_effect(card)} | _encode_replies(memory, card)
        if card.approval and card.approval.state == "approved":
            tx.record(memory, f.ApprovalChanged(card.call_id, "claimed", id=row.id, at=tx.now), card)
            approval_rows.update_approval(row.id, claimed_at=tx.now)
        return decision


def _encode_replies(memory: RunMemory, card: Card) -> dict[str, Any]:
    """Return the reply in the agent's protocol, and all replies of the scope if the protocol batches them."""
    adapter = ADAPTERS.get(memory.row.protocol)
    if adapter is None:
        return {"reply": None}
    replies: dict[str, Any] = {"reply": adapter.encode(_build_answer(card))}
    if adapter.encode_all is not None:
        same_scope = [peer for peer in memory.board.cards.values() if peer.scope == card.scope and not peer.removed]
        agent_opened = [peer for peer in same_scope if peer.approval and peer.approval.opener == "agent"]
        replies["resume"] = adapter.encode_all([_build_answer(peer) for peer in agent_opened if not peer.waiting])
    return replies


def _build_answer(card: Card) -> ApprovalAnswer:
    ask = card.approval
    assert ask is not None
    edited_input = card.input if card.repair == "edited" else None
    is_denied_by_person = card.denied_by is None or card.denied_by.kind == "human"
    reason = ask.reason or ("" if is_denied_by_person else card.denied)
    return ApprovalAnswer(
        card.call_id, ask.source_id, card.state != "output-denied", reason, edited_input, ask.reply_to, card.input
    )


class ConfirmDelivery(ApprovalCommand):
    """Record that the agent has received a decision, whichever connection sent it."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = approval_rows.load_approval(self.approval)
        if row is not None and row.delivered_at is None and row.held_until:
            approval_rows.update_approval(row.id, delivered_at=tx.now)


class ReleaseDelivery(ApprovalCommand):
    """Release a claimed decision that could not be sent, so that another connection can claim it.

    `connection`: the one that waited for the receipt; what another one has sent in the meantime stays with it.
    `may_have_arrived`: the agent may know the answer, so that it cannot be undone.
    """

    def __init__(self, approval: str, connection: str = "", *, may_have_arrived: bool = False) -> None:
        super().__init__(approval)
        self.connection, self.may_have_arrived = connection, may_have_arrived or bool(connection)

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = approval_rows.load_approval(self.approval)
        if row is None:
            return
        if self.connection and (row.delivered_at is not None or row.claimed_by != self.connection):
            return
        memory = tx.load_run(row.run_id)
        if _reopen(tx, memory, row):
            approval_rows.update_approval(row.id, delivered_at=None, held_until=0.0)
            if self.may_have_arrived and row.state == "approved":
                card = approval_rows.get_card(memory, row)
                tx.record(memory, f.ApprovalFetched(card.call_id, id=row.id, at=tx.now), card)
        elif self.connection:
            approval_rows.update_approval(row.id, delivered_at=tx.now)


def _reopen(tx: Transaction, memory: RunMemory, row: Approval) -> bool:
    """Make a sent decision one to send; return False if its call continues or has ended without it."""
    card = approval_rows.get_card(memory, row)
    if card.approval is None or card.approval.id != row.id:
        return False
    is_kept = row.opener == "agent" and card.soft  # its run broke off; the next one has the answer
    if card.preliminary or (card.finished and card.state is not ToolCallState.OUTPUT_DENIED and not is_kept):
        return False  # the agent has used the answer, or the call ended; a denied call ended because of it
    if row.state == "claimed":
        tx.record(memory, f.ApprovalChanged(card.call_id, "approved", id=row.id, at=tx.now), card)
        row.state = "approved"
    row.claimed_at = 0
    approval_rows.update_approval(row.id, claimed_at=0)
    return True
