"""What reviewers answered, next to what people answered about the same calls."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from toolcards.core.policy.reviewer import Reviewer
from toolcards.models import Review

DAYS = 30
MAX_REVIEWS = 2_000  # the newest of a reviewer that count
MAX_DIFFERENCES = 20  # that the page lists
_APPROVED = frozenset({"approved", "claimed", "succeeded", "failed", "unknown", "expired"})
_LOOSER = ("allow", "deny")  # what the reviewer would have answered, and what a person did


@dataclass
class ReviewRecord:
    """The reviews of one reviewer. `agreed` and `differed` count those that a person answered, too."""

    total: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    agreed: int = 0
    differed: int = 0
    looser: int = 0  # of those that differ: it would have allowed what a person denied
    limited: int = 0  # allows that would not count: only people can approve those calls
    differences: list[tuple[Review, str]] = field(default_factory=list)  # with the answer of the person


def compare_with_people(reviewer: Reviewer) -> ReviewRecord:
    """Return the recent record of a reviewer as it is now."""
    earliest = time.time() - DAYS * 86_400
    reviews = Review.objects.filter(
        reviewer=reviewer.name, reviewer_sha256=reviewer.sha256, state="done", answered_at__gte=earliest
    )
    return count_reviews(reviews.select_related("approval__call").order_by("-id")[:MAX_REVIEWS])


def count_reviews(reviews: Iterable[Review]) -> ReviewRecord:
    """Count the reviews, newest first."""
    record = ReviewRecord()
    for review in reviews:
        record.total += 1
        record.failures += review.is_failure
        if review.answer:
            record.answers[review.answer] += 1
        if review.answer and review.note:
            record.limited += 1
            continue
        person = read_answer_of_person(review)
        if not person or review.answer not in _LOOSER:
            continue
        if person == review.answer:
            record.agreed += 1
            continue
        record.differed += 1
        record.looser += (review.answer, person) == _LOOSER
        if len(record.differences) < MAX_DIFFERENCES:
            record.differences.append((review, person))
    return record


def read_answer_of_person(review: Review) -> str:
    """Return a person's answer, allow or deny; "" without one."""
    approval = review.approval
    if approval.by_kind != "human":
        return ""
    if approval.state == "denied":
        return "deny"
    return "allow" if approval.state in _APPROVED else ""
