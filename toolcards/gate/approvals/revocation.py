"""Revokes an approval that the agent has not received ("Undo" on pages): its permit is void, the call is denied.

People undo what a person or a reviewer approved. With a lasting answer goes what its rule has answered meanwhile. This
works until the agent has fetched or claimed the answer: both are recorded while its run is locked, so of an undo
and a fetch at the same time one comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from toolcards.audit.trail import Act
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import Effect
from toolcards.gate import lasting_answers
from toolcards.gate.decisions.eligibility import list_identities, load_terms, may_vote
from toolcards.gate.decisions.evaluation import reevaluate_call
from toolcards.gate.refusals import NotAllowed, NotFound, TooLate
from toolcards.gate.writer import approval_rows, audit_entries
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import ApprovalCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Grant

MAX_RECALLED = 500
REVOKED_REASON = "This call was approved, and a person then revoked the approval."
RECALLED_REASON = "A lasting answer allowed this call, and a person then revoked that answer."


def can_undo(card: Card) -> bool:
    """Return whether it is approved and not with the agent yet."""
    ask = card.approval
    if ask is None or ask.by is None or card.finished:
        return False
    return ask.by.kind in {"human", "reviewer"} and ask.state == "approved" and not ask.fetched


class Revocation(NamedTuple):
    """The call after an undo.

    Also the ids of the calls that its lasting answer had allowed and that are denied, too, and how many agents have.
    """

    card: Card
    recalled_calls: tuple[str, ...] = ()
    late_count: int = 0


class RevokeApproval(ApprovalCommand):
    """Revoke an approval that is neither delivered nor used, and what its lasting answer allowed.

    The answer is a `Revocation`.
    """

    def __init__(self, person: Any, approval: str) -> None:
        super().__init__(approval)
        self.person = person

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        row = Approval.objects.filter(id=self.approval, asked=True).select_related("call").first()
        return [self.approval, *(_list_siblings(row, row.call.as_card()) if row is not None else ())]

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().filter(id=self.approval, asked=True).first()
        if row is None:
            raise NotFound("Approval not found.")
        memory = tx.load_run(row.run_id)
        row.refresh_from_db()  # the run is locked now: no connection can claim the decision
        card = memory.board.cards[row.call.ordinal]
        siblings: list[str] = []
        recalled_calls: list[str] = []
        if not self._is_repeated(row, card):
            self._check(row, card)
            siblings = _list_siblings(row, card)
            self._revoke(tx, memory, row, card)
            recalled_calls = [call for pk in siblings if (call := self._recall(tx, pk))]
            act = audit_entries.build_call_act(
                memory, card, "vote.undone", "human", self.person.get_username(), tx.now, row.id,
                **({"recalled": recalled_calls} if recalled_calls else {}),
            )  # fmt: skip
            tx.audit_acts.append(act)
        self.answer = Revocation(
            memory.board.cards[card.ordinal], tuple(recalled_calls), len(siblings) - len(recalled_calls)
        )

    def _is_repeated(self, row: Approval, card: Card) -> bool:
        """Return whether the same person revoked the approval before."""
        actor = card.denied_by
        is_mine = actor is not None and actor.kind == "human" and actor.name == self.person.get_username()
        return row.state == "revoked" and is_mine

    def _check(self, row: Approval, card: Card) -> None:
        if not may_vote(self.person):
            raise NotAllowed("You do not have permission to vote.")
        if not load_terms(row).may_answer(list_identities(self.person)):
            raise NotAllowed("This rule requires a different approver.")
        if _is_out(row, card):
            raise TooLate("Too late to undo: the agent has the answer.", code="used")
        is_current = card.approval is not None and card.approval.id == row.id
        if row.state != "approved" or not is_current or not can_undo(card):
            raise TooLate(f"Nothing to revoke: this approval is {row.state}.", code="used")

    def _revoke(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card) -> None:
        actor = f.Actor("human", self.person.get_username())
        if card.approval is not None and card.approval.lasting_rule:
            lasting_answers.take_back(card, self.person)
        for grant in Grant.objects.live(tx.now).filter(approval=row):  # grants of the revoked vote
            Grant.objects.filter(pk=grant.pk).update(revoked_at=tx.now)
            detail = {"grant": grant.id, "rule": grant.rule, "tool": grant.tool}
            tx.audit_acts.append(Act("grant.revoked", actor.kind, actor.name, detail=detail, at=tx.now))
        _deny(tx, memory, row, card, actor, REVOKED_REASON)

    def _recall(self, tx: Transaction, pk: str) -> str:
        """Deny a call that the rule allowed; return its id, "" if its agent has the answer or policy allows it."""
        row = Approval.objects.get(id=pk)
        memory = tx.load_run(row.run_id)
        card = approval_rows.get_card(memory, row)
        is_current = card.approval is not None and card.approval.id == pk and not card.finished
        if row.state != "approved" or not is_current or _is_out(row, card):
            return ""
        if reevaluate_call(memory, card, tx.now).effect is Effect.ALLOW:
            return ""
        _deny(tx, memory, row, card, f.Actor("human", self.person.get_username()), RECALLED_REASON)
        return card.call_id


def _list_siblings(row: Approval, card: Card) -> list[str]:
    """Return the questions that the rule of the row's lasting answer has approved."""
    rule = card.approval.lasting_rule if card.approval is not None and card.approval.id == row.id else ""
    answers = Approval.objects.answered_by_rule(rule, after=row.decided_at) if rule else Approval.objects.none()
    return list(answers.values_list("id", flat=True)[:MAX_RECALLED])


def _is_out(row: Approval, card: Card) -> bool:
    """Return whether the agent has the answer, or may have it."""
    is_current = card.approval is not None and card.approval.id == row.id
    return bool(row.claimed_at or row.delivered_at or (is_current and card.approval and card.approval.fetched))


def _deny(tx: Transaction, memory: RunMemory, row: Approval, card: Card, actor: f.Actor, reason: str) -> None:
    tx.record(memory, f.ApprovalChanged(card.call_id, "revoked", id=row.id, at=tx.now), card)
    tx.record(memory, f.OutputDenied(card.call_id, reason=reason, by=actor, at=tx.now), card)
