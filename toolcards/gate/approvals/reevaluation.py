"""Applies a new policy version to the waiting calls, on request. By default approvals outlive a version."""

from __future__ import annotations

from typing import Any

from toolcards.audit.trail import Act
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import Effect, PolicyDecision
from toolcards.core.risk.assessment import assess_risk
from toolcards.gate.approvals.permits import build_permit_columns
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import is_stricter, load_terms
from toolcards.gate.decisions.evaluation import build_decision_fact, reevaluate_call
from toolcards.gate.decisions.recheck import replace_approval, revoke_and_deny
from toolcards.gate.refusals import Undecryptable
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval

MAX_APPROVALS = 500


class ReevaluateWaiting(Command):
    """Reevaluate every waiting call (at most 500). Answers the number of calls per result.

    `rule`: only those that this rule of a lasting answer decides now. High risks, and what several people must approve,
    still wait.
    """

    def __init__(self, actor: str, rule: str = "") -> None:
        super().__init__()
        self.actor, self.rule = actor, rule

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        counts = {"allowed": 0, "denied": 0, "asked_anew": 0, "left": 0}
        rows = list(Approval.objects.waiting().filter(opener="gate").select_related("call")[:MAX_APPROVALS])
        tx.lock_rows(row.run_id for row in rows)
        for row in rows:
            try:
                memory = tx.load_run(row.run_id)
            except Undecryptable:  # nothing can be claimed in such a run, and the others are reevaluated
                counts["left"] += 1
                continue
            card = memory.board.cards[row.call.ordinal]
            if approval_rows.is_open_on(card, row) and not row.is_overdue(tx.steady):  # overdue ones expire
                is_covered = self._is_covered(tx, memory, row, card)
                counts[reevaluate(tx, memory, row, card, self.rule) if is_covered else "left"] += 1
        detail = counts | ({"rule": self.rule} if self.rule else {})
        if not self.rule or counts["allowed"] or counts["denied"]:
            tx.audit_acts.append(Act("policy.applied", "human", self.actor, detail=detail, at=tx.now))
        self.answer: dict[str, Any] = counts

    def _is_covered(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card) -> bool:
        if not self.rule:
            return True
        decision = reevaluate_call(memory, card, tx.now)
        if self.rule not in decision.rules:
            return False
        needs_people = load_terms(row).quorum > 1 or assess_risk(card).level == "high"
        return decision.effect is Effect.DENY or (decision.effect is Effect.ALLOW and not needs_people)


def reevaluate(tx: Transaction, memory: RunMemory, row: Approval, card: Card, rule: str = "") -> str:
    """Apply the active policy to one waiting call; return the result's name.

    `rule`: the one that answers, if several rules allow the call together.
    """
    decision = reevaluate_call(memory, card, tx.now)
    if decision.effect is Effect.DENY:
        revoke_and_deny(tx, memory, row, card, decision)
        return "denied"
    if decision.effect is Effect.ALLOW:
        _allow(tx, memory, row, card, decision, f.Actor("rule", rule) if rule else decision.by)
        return "allowed"
    if is_stricter(decision, row):
        replace_approval(tx, memory, row, card, decision)
        return "asked_anew"
    return "left"


def _allow(
    tx: Transaction, memory: RunMemory, row: Approval, card: Card, decision: PolicyDecision, actor: f.Actor
) -> None:
    tx.record(memory, build_decision_fact(card, decision, digest_input(card), tx.now), card)
    tx.approval_columns[row.id] = build_permit_columns(row, tx.working)
    tx.record(
        memory,
        f.ApprovalAnswered(card.call_id, True, id=row.id, reason=decision.reason, by=actor, at=tx.now),
        card,
    )
