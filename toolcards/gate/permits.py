"""Permits: the single-use right to execute exactly the arguments that were allowed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from toolcards.core import facts as f
from toolcards.core.lifecycle import Card
from toolcards.gate import audit
from toolcards.gate.answers import answer, iso
from toolcards.gate.memory import RunMemory
from toolcards.gate.rechecking import rechecked
from toolcards.gate.refusals import Changed, TooLate, Unknown
from toolcards.gate.transaction import Transaction
from toolcards.gate.work import OfSource
from toolcards.models import Approval, Source

NOT_BEGUN = "Approved, but not executed in time."
NEVER_BEGUN = "Allowed, but never executed."


class Claim(OfSource):
    """Use up a permit, right before executing: once, for exactly the arguments that were allowed."""

    def __init__(self, source: Source, permit: str, body: dict[str, Any]) -> None:
        super().__init__(source, "")
        self.permit, self.body = permit, body

    def runs(self) -> Iterable[tuple[int, str]]:
        """See journal.Work."""
        return ()

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        row = self._approval(permit=self.permit) if self.permit else None
        if row is None:
            raise Unknown("There is no such permit.")
        memory = tx.existing(row.run_id)
        card = memory.board.cards[row.call.ordinal]
        self._check(row, card, tx.now)
        refused = rechecked(tx, memory, row, card)
        if refused is not None:  # raised by the door, once it is written down
            self.answer = refused
            return
        row.claimed_at, row.state = tx.now, "claimed"
        row.save(update_fields=["claimed_at", "state"])
        if card.approval and card.approval.id == row.id:
            tx.tell(memory, f.ApprovalMoved(card.call_id, "claimed", id=row.id, at=tx.now))
        else:  # allowed without a question, so that no fact of the call says it
            tx.acts.append(audit.about(memory, card, "claim", "agent", self.source.name, tx.now, row.id))
        self.answer = {
            "permit": row.permit, "call_id": card.call_id, "state": "claimed", "args_sha256": row.args_sha256,
            "args": card.input,
        }  # fmt: skip

    def _check(self, row: Approval, card: Card, now: float) -> None:
        body = self.body
        if row.claimed_at:
            raise TooLate("This permit was used.", code="used")
        if row.state != "approved":
            late = {"expired": "expired", "cancelled": "run_ended"}.get(row.state, "revoked")
            raise TooLate(f"This permit is {row.state}.", code=late)
        if row.permit_expires_at and row.permit_expires_at < now:
            raise TooLate("This permit has expired.", code="expired")
        if body.get("call_id") != card.call_id or str(body.get("args_sha256", "")).lower() != row.args_sha256:
            raise Changed("The permit is for another call or other arguments.", code="args_mismatch")
        if row.schema_sha256 and body.get("schema_sha256") != row.schema_sha256:
            raise Changed("The tool's schema is not the one that was judged.", code="schema_changed")


def forfeit(tx: Transaction, memory: RunMemory) -> None:
    """The run is over: what rules allowed may not begin any more, and of what has begun nobody knows the end."""
    allowed = Approval.objects.filter(run=memory.row.pk, asked=False)
    unused = allowed.filter(state="approved", claimed_at=0)
    for pk, ordinal in unused.values_list("id", "call__ordinal"):
        tx.acts.append(audit.about(memory, memory.board.cards[ordinal], "permit.cancelled", "gate", "", tx.now, pk))
    unused.update(state="cancelled")
    allowed.filter(state="claimed").update(state="unknown")


def use_clock(row: Approval, now: float) -> dict[str, Any]:
    """Return the columns of an answer that is a yes since `now`: until when the call may begin, and the right to it.

    Over HTTP the agent claims a permit; elsewhere the answer itself is the right, used up as it is handed over.
    """
    until = {"permit_expires_at": now + settings.TOOLCARDS.handover_seconds + row.use_ttl}
    if row.channel == "http":
        return until if row.permit else until | {"permit": new_permit()}
    return until if row.opener == "gate" else {}  # how long the agent's own question waits is the agent's matter


def lapse(tx: Transaction, memory: RunMemory, row: Approval, card: Card) -> None:
    """Approved, but not begun in time: the right is gone, and the agent is told so if it comes for its answer."""
    Approval.objects.filter(id=row.id).update(state="expired")
    if card.approval and card.approval.id == row.id:
        tx.tell(memory, f.ApprovalMoved(card.call_id, "expired", id=row.id, at=tx.now))
        tx.tell(memory, f.Closed(card.call_id, "cancelled", reason=NOT_BEGUN, at=tx.now))
        return
    tx.acts.append(audit.about(memory, card, "permit.expired", "timeout", "", tx.now, row.id, reason=NEVER_BEGUN))
    if not card.hard:  # a rule had allowed it
        tx.tell(memory, f.Closed(card.call_id, "truncated", reason=NEVER_BEGUN, at=tx.now))


def lapsed(row: Approval, now: float) -> bool:
    """Whether the row is a yes whose time for use is over and that nobody has used."""
    return row.state == "approved" and not row.claimed_at and 0 < row.permit_expires_at <= now


def new_permit() -> str:
    """Return a permit's id; who has it may run the call, once."""
    return f"prm_{secrets.token_urlsafe(24)}"


def permit_object(row: Approval) -> dict[str, Any] | None:
    """Return the permit of an approved and unclaimed approval, once it may be handed over."""
    if row.state != "approved" or row.claimed_at or not row.permit or _held_back(row):
        return None
    return {"id": row.permit, "expires_at": iso(row.permit_expires_at)}


def with_permit(memory: RunMemory, card: Card, *, attempt: int = 1) -> dict[str, Any]:
    """Return the call's decision object as it stands, with its permit if it has one to give."""
    row = Approval.objects.filter(run_id=memory.row.pk, call__ordinal=card.ordinal).order_by("-requested_at").first()
    said = answer(memory, card, permit=permit_object(row) if row else None, attempt=row.attempt if row else attempt)
    if row and row.state == "approved" and not row.claimed_at and _held_back(row):
        said |= {"decision": "ask", "approval": {**said["approval"], "state": "pending", "have": 0}}
    if card.repair == "edited" and said["decision"] == "allow":
        said["args"] = card.input
    return said


def _held_back(row: Approval) -> bool:
    """Whether a person's yes may still be taken back, so that its agent is not told yet."""
    held = row.asked and row.delivered_at is None
    return held and row.decided_at + settings.TOOLCARDS.handover_seconds > time.time()
