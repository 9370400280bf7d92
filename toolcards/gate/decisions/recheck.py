"""The policy of this moment counts: an answer of yesterday is looked at again when it is used.

Now denied: the answer is taken back and the call is refused. Now asked more strictly: it is asked anew, and no vote
given before counts. Now looser: a call that waits goes on waiting, since nothing is approved behind people's backs.
"""

from __future__ import annotations

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import Decision, Effect
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import is_stricter
from toolcards.gate.decisions.evaluation import build_decision_fact, open_approval, reevaluate_call
from toolcards.gate.refusals import CallChanged
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval


def recheck_approval(
    tx: Transaction, memory: RunMemory, row: Approval, card: Card, *, again: bool = True
) -> CallChanged | None:
    """Return why the answer does not count any more, with all that follows written down; None where it does.

    `again` False: nobody can wait for another answer, so that a stricter question is a no.
    """
    now = reevaluate_call(memory, card, tx.now)
    if now.effect is Effect.DENY:
        revoke_and_deny(tx, memory, row, card, now)
        return CallChanged(f"Policy denies this call by now: {now.reason}", code="policy_changed")
    if now.effect is Effect.ASK and is_stricter(row, now):
        if not again:
            revoke_and_deny(tx, memory, row, card, now)
            return CallChanged("Policy asks more strictly by now.", code="policy_changed")
        asked = replace_approval(tx, memory, row, card, now)
        told = {"id": asked, "state": "pending", "poll": f"/api/v1/approvals/{asked}?wait=25"}
        return CallChanged("Policy wants a person's answer to this call by now.", code="policy_changed", approval=told)
    return None


def revoke_and_deny(tx: Transaction, memory: RunMemory, row: Approval, card: Card, now: Decision) -> None:
    """Take the answer back and end the call with a denial."""
    state = "revoked" if row.state == "approved" else "denied"
    _void_permit(tx, memory, row, card, "revoked")
    tx.record(memory, build_decision_fact(card, now, digest_input(card), tx.now), card)
    if state == "revoked" and card.approval and card.approval.id == row.id:
        tx.record(memory, f.ApprovalChanged(card.call_id, state, id=row.id, at=tx.now), card)
    tx.record(memory, f.OutputDenied(card.call_id, reason=now.reason, by=now.by, at=tx.now), card)
    Approval.objects.filter(id=row.id).update(state=state, decided_at=row.decided_at or tx.now)


def replace_approval(tx: Transaction, memory: RunMemory, row: Approval, card: Card, now: Decision) -> str:
    """Open another question about the same call in place of the row's; return its id."""
    sha256 = digest_input(card)
    _void_permit(tx, memory, row, card, "superseded")
    tx.record(memory, build_decision_fact(card, now, sha256, tx.now), card)
    kept = {name: getattr(row, name) for name in ("attempt", "schema_sha256", "idempotency_key")}
    asked = open_approval(tx, memory, card, now, sha256, channel=row.channel, now=tx.now, extras=kept)
    Approval.objects.filter(id=row.id).update(state="superseded")
    return asked


def _void_permit(tx: Transaction, memory: RunMemory, row: Approval, card: Card, state: str) -> None:
    if card.permit is not None and card.permit.id == row.id:
        tx.record(memory, f.PermitChanged(card.call_id, state, row.id, tx.now), card)
