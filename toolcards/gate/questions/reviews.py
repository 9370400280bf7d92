"""Reviews of questions: opened with the question; their answer counts once, and only for exactly that call.

A question with a review is an ordinary one: people can answer it meanwhile, and the first answer wins. So a reviewer
that is late, unclear or gone leaves the question with people. toolcards/reviewers asks the reviewers, after the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.calls import questions
from toolcards.core.calls.card import Card
from toolcards.core.calls.tool_events import APPROVAL_REQUESTED, get_attempt
from toolcards.core.policy.decision import AskTerms
from toolcards.core.policy.reviewer import Reviewer
from toolcards.core.review.review_answer import ReviewAnswer
from toolcards.gate import policy_store
from toolcards.gate.decisions.digests import digest_call, digest_input
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Delivery, Review

GRACE = 1.0  # seconds after the time of a reviewer, in which its failure is recorded


def find_reviewer(card: Card, terms: AskTerms | None) -> Reviewer | None:
    """Return the reviewer for a call under these terms."""
    name = (terms.review or terms.shadow_review) if terms else ""
    if not name or questions.is_form(card.tool.name):
        return None
    return policy_store.get_active_policy().reviewers.get(name)


def describe_review(reviewer: Reviewer | None, now: float) -> dict[str, Any]:
    """Return the reviewer and its time limit for the card.

    A shadow review is not on the card, since people have to answer on their own.
    """
    if reviewer is None or not reviewer.enforces:
        return {}
    return {"review": reviewer.name, "review_until": now + reviewer.seconds + GRACE}


def open_review(tx: Transaction, memory: RunMemory, card: Card, fact: f.ApprovalRequested, reviewer: Reviewer) -> None:
    """Open the review of a question, in its transaction."""
    review = Review(
        approval_id=fact.id,
        reviewer=reviewer.name,
        is_shadow=not reviewer.enforces,
        reviewer_sha256=reviewer.sha256,
        prompt_sha256=reviewer.prompt_sha256,
        args_sha256=digest_input(card),
        call_sha256=digest_call(card),
        created_at=tx.now,
    )
    tx.after_write.append(partial(_insert, review))


def _insert(review: Review) -> None:
    is_written = Approval.objects.filter(pk=review.approval_id).exists()  # else this commit has replaced the question
    if is_written and not Review.objects.filter(approval=review.approval_id).exists():
        review.save(force_insert=True)


@dataclass(frozen=True, slots=True)
class ReviewOutcome:
    """What became of a review: the answer, or `note` on why it is missing.

    `is_failure`: it counts for the circuit breaker.
    """

    review: int
    approval: str
    answer: ReviewAnswer | None = None
    note: str = ""
    is_failure: bool = False


def release_notifications(run: int, card: Card, now: float, *, is_answered: bool) -> None:
    """Send the notifications that waited for the review.

    If the reviewer has answered the question, they are dropped.
    """
    head = f"evt_{run}-{card.ordinal}-{get_attempt(card)}-"
    waiting = Delivery.objects.filter(
        event=APPROVAL_REQUESTED, state="pending", event_id__startswith=head, next_at__gt=now
    )
    if is_answered:
        waiting.update(state="dropped", error="The reviewer answered.", done_at=now)
    else:
        waiting.update(next_at=now)
