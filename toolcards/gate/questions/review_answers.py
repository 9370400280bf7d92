"""Records what became of a review, and lets an answer settle the question if it is still exactly the same one."""

from __future__ import annotations

from collections.abc import Iterable

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import AskTerms, Effect, PolicyDecision
from toolcards.core.review.review_answer import explain_limit
from toolcards.encryption import get_redactor
from toolcards.gate import emergency, policy_store
from toolcards.gate.approvals.expected_decisions import answer_requests
from toolcards.gate.approvals.expiry import is_past_deadline
from toolcards.gate.approvals.permits import build_permit_columns
from toolcards.gate.approvals.votes import clean_comment
from toolcards.gate.decisions.digests import digest_call, digest_input
from toolcards.gate.decisions.eligibility import is_stricter, load_terms
from toolcards.gate.decisions.evaluation import build_policy_request, reevaluate_call
from toolcards.gate.questions.reviews import ReviewOutcome, release_notifications
from toolcards.gate.writer import approval_rows, audit_entries
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import ApprovalCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Review

ANSWERED_BEFORE = "The call was answered or withdrawn before."
CHANGED = "The call changed meanwhile."
NEW_POLICY = "The policy changed meanwhile."


class RecordReview(ApprovalCommand):
    """Record the outcome of a review, once; the answer is whether it settled the question."""

    def __init__(self, outcome: ReviewOutcome) -> None:
        super().__init__(outcome.approval)
        self.outcome = outcome
        self.answer = False

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self.answer = False
        row = approval_rows.load_approval(self.approval)
        if row is None:
            return
        memory = tx.load_run(row.run_id)
        card = approval_rows.get_card(memory, row)
        review = Review.objects.select_for_update().filter(pk=self.outcome.review, approval=row.id).first()
        if review is None or review.state == "done":
            return
        note = self.outcome.note or self._explain_left(tx, memory, row, card, review)
        self._write(tx, memory, card, review, note)
        if review.is_shadow or not approval_rows.is_open_on(card, row):
            return
        self._record_on_card(tx, memory, card, review)
        if not note and review.answer in {"allow", "deny"}:
            self._settle(tx, memory, row, memory.board.cards[card.ordinal], review)
        self.answer = review.has_decided
        tx.after_write.append(lambda: release_notifications(row.run_id, card, tx.now, is_answered=review.has_decided))

    def _explain_left(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, review: Review) -> str:
        """Return why this answer does not count, "" if it does."""
        if self.outcome.answer is None:
            return ""
        if review.is_shadow:
            return self._explain_limit(tx, memory, row, card, load_terms(row), review)
        if row.state != "pending" or not approval_rows.is_open_on(card, row) or is_past_deadline(tx, row):
            return ANSWERED_BEFORE
        ask = card.approval
        is_same = (digest_input(card), digest_call(card)) == (review.args_sha256, review.call_sha256)
        if not is_same or row.args_sha256 != review.args_sha256 or ask is None or ask.have or ask.has_edited:
            return CHANGED
        if emergency.is_kill_switch_on():
            return emergency.KILL_SWITCH_REASON
        decision = reevaluate_call(memory, card, tx.now)
        if not _still_asks_reviewer(decision, row, review):
            return NEW_POLICY
        terms = load_terms(row).union(decision.ask or AskTerms())
        return self._explain_limit(tx, memory, row, card, terms, review)

    def _explain_limit(
        self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, terms: AskTerms, review: Review
    ) -> str:
        """Return why the reviewer may not approve this call, "" for other answers."""
        if self.outcome.answer is None or self.outcome.answer.answer != "allow":
            return ""
        request = build_policy_request(memory, card, policy_store.get_active_policy(), now=tx.now)
        return explain_limit(card, get_redactor().card(card), request, terms, review.reviewer)

    def _write(self, tx: Transaction, memory: RunMemory, card: Card, review: Review, note: str) -> None:
        answer = self.outcome.answer
        review.state, review.answered_at, review.is_failure = "done", tx.now, self.outcome.is_failure
        review.answer = answer.answer if answer else ""
        review.reason = clean_comment(get_redactor().text(answer.reason)) if answer else ""
        review.note = fit_text(note, 300)
        review.has_decided = not review.is_shadow and not note and review.answer in {"allow", "deny"}
        review.save()
        tx.audit_acts.append(audit_entries.build_call_act(
            memory, card, "review.answered" if answer else "review.failed", "reviewer", review.reviewer, tx.now,
            review.approval_id, answer=review.answer, reason=review.reason, note=review.note,
            mode="shadow" if review.is_shadow else "enforce", args_sha256=review.args_sha256,
            prompt_sha256=review.prompt_sha256, reviewer_sha256=review.reviewer_sha256,
        ))  # fmt: skip

    def _record_on_card(self, tx: Transaction, memory: RunMemory, card: Card, review: Review) -> None:
        fact = f.CallReviewed(
            card.call_id, f.Actor("reviewer", review.reviewer), review.answer, review.reason, review.note,
            id=review.approval_id, args_sha256=review.args_sha256, prompt_sha256=review.prompt_sha256, at=tx.now,
        )  # fmt: skip
        tx.record(memory, fact, card)

    def _settle(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, review: Review) -> None:
        """Answer the question as a vote would."""
        is_approved = review.answer == "allow"
        if is_approved:
            tx.approval_columns[row.id] = build_permit_columns(row, tx.working)
        fact = f.ApprovalAnswered(
            card.call_id, is_approved, id=row.id, reason=review.reason, by=f.Actor("reviewer", review.reviewer),
            at=tx.now,
        )  # fmt: skip
        tx.record(memory, fact, card)
        answer_requests(tx, memory, memory.board.cards[card.ordinal], row.id, is_approved=is_approved)


def _still_asks_reviewer(decision: PolicyDecision, row: Approval, review: Review) -> bool:
    """Return whether the active policy asks about the call, in the same way and the same reviewer."""
    if decision.effect is not Effect.ASK or decision.ask is None or decision.ask.review != review.reviewer:
        return False
    reviewer = policy_store.get_active_policy().reviewers.get(review.reviewer)
    return reviewer is not None and reviewer.sha256 == review.reviewer_sha256 and not is_stricter(decision, row)


def list_stalled(before: float) -> Iterable[ReviewOutcome]:
    """Yield the outcomes of reviews whose process has ended.

    `before`: epoch seconds; reviews that began earlier and did not end count.
    """
    for pk, approval in Review.objects.stalled(before).values_list("pk", "approval_id"):
        yield ReviewOutcome(pk, approval, note="The server stopped during the review.")
