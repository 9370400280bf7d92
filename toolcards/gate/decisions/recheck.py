"""Rechecks an answer against the active policy when it is used.

- Policy denies the call now: the answer is revoked and the call is denied.
- Policy asks more strictly now: a new approval replaces the old one, earlier votes do not count.
- Policy is looser now: no effect. A waiting call keeps waiting; recheck never approves it.
"""

from __future__ import annotations

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import Effect, PolicyDecision
from toolcards.gate import emergency, policy_store
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import is_stricter
from toolcards.gate.decisions.evaluation import (
    build_decision_fact,
    build_policy_request,
    describe_moment,
    reevaluate_call,
)
from toolcards.gate.questions.opening import open_approval
from toolcards.gate.refusals import CallChanged
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval


def recheck_approval(
    tx: Transaction, memory: RunMemory, row: Approval, card: Card, *, can_wait: bool = True
) -> CallChanged | None:
    """Return why the answer is no longer valid, None if it is.

    The consequences are recorded.

    `can_wait` False: the agent cannot wait for another answer, so a stricter policy denies the call.
    """
    if is_decided_alike(memory, card, tx.now):
        return None
    decision = reevaluate_call(memory, card, tx.now)
    if decision.effect is Effect.DENY:
        revoke_and_deny(tx, memory, row, card, decision)
        return CallChanged(f"The policy denies this call now: {decision.reason}", code="policy_changed")
    if decision.effect is Effect.ASK and is_stricter(decision, row):
        if not can_wait:
            revoke_and_deny(tx, memory, row, card, decision)
            return CallChanged("The policy is stricter now; approval is required again.", code="policy_changed")
        pk = replace_approval(tx, memory, row, card, decision)
        approval = {"id": pk, "state": "pending", "poll": f"/api/v1/approvals/{pk}?wait=25"}
        return CallChanged("The policy now requires approval of this call.", code="policy_changed", approval=approval)
    return None


def is_decided_alike(memory: RunMemory, card: Card, now: float) -> bool:
    """Return whether policy would allow the call again, without evaluating its rules.

    So it is if rules or the default allowed it, in the same version and the same circumstances, and no rule of the
    version depends on time or on other calls.
    """
    verdict = card.decision
    if verdict is None or verdict.effect != Effect.ALLOW or verdict.code not in ("rule_allowed", "default"):
        return False
    if emergency.is_kill_switch_on():
        return False
    try:
        policy = policy_store.get_active_policy()
    except (policy_store.UnreadablePolicy, policy_store.NoActivePolicy):
        return False
    if policy.version != verdict.version or policy.changes_with_time:
        return False
    moment = describe_moment(memory, build_policy_request(memory, card, policy, now=now))
    return moment | {"now": now} == {**verdict.moment, "now": now}


def revoke_and_deny(tx: Transaction, memory: RunMemory, row: Approval, card: Card, decision: PolicyDecision) -> None:
    """Revoke the answer and deny the call."""
    state = "revoked" if row.state == "approved" else "denied"
    _void_permit(tx, memory, row, card, "revoked")
    tx.record(memory, build_decision_fact(card, decision, digest_input(card), tx.now), card)
    if state == "revoked" and card.approval and card.approval.id == row.id:
        tx.record(memory, f.ApprovalChanged(card.call_id, state, id=row.id, at=tx.now), card)
    tx.record(memory, f.OutputDenied(card.call_id, reason=decision.reason, by=decision.by, at=tx.now), card)
    Approval.objects.filter(id=row.id).update(state=state, decided_at=row.decided_at or tx.now)


def replace_approval(tx: Transaction, memory: RunMemory, row: Approval, card: Card, decision: PolicyDecision) -> str:
    """Open a new approval that supersedes the row's; return its id."""
    sha256 = digest_input(card)
    _void_permit(tx, memory, row, card, "superseded")
    tx.record(memory, build_decision_fact(card, decision, sha256, tx.now), card)
    extras = {name: getattr(row, name) for name in ("attempt", "schema_sha256", "idempotency_key")}
    pk = open_approval(tx, memory, card, decision, sha256, channel=row.channel, now=tx.now, extras=extras)
    Approval.objects.filter(id=row.id).update(state="superseded")
    return pk


def _void_permit(tx: Transaction, memory: RunMemory, row: Approval, card: Card, state: str) -> None:
    if card.permit is not None and card.permit.id == row.id:
        tx.record(memory, f.PermitChanged(card.call_id, state, row.id, tx.now), card)
