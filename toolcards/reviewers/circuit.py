"""The circuit breaker: after three failures in a row a reviewer is left alone, and people are asked at once."""

from __future__ import annotations

from django.db.models import Q

from toolcards.audit.trail import Act, write_acts
from toolcards.models import Review

FAILURES = 3  # in a row
PAUSE = 300.0  # seconds until one question tries it again


def get_end_of_pause(reviewer: str) -> float:
    """Return the end of the pause (epoch seconds), 0 without one."""
    attempts = Review.objects.filter(Q(is_failure=True) | ~Q(answer=""), reviewer=reviewer, state="done")
    latest = list(attempts.order_by("-answered_at", "-id").values_list("is_failure", "answered_at")[:FAILURES])
    is_broken = len(latest) == FAILURES and all(is_failure for is_failure, _ in latest)
    return float(latest[0][1]) + PAUSE if is_broken else 0.0


def may_ask(review: Review, now: float) -> bool:
    """Return whether the reviewer may be asked now.

    After the pause only one question at a time tries it.
    """
    end = get_end_of_pause(review.reviewer)
    if not end:
        return True
    tries = Review.objects.filter(reviewer=review.reviewer, state="asking").exclude(pk=review.pk)
    return now >= end and not tries.exists()


def reset(reviewer: str, actor: str) -> None:
    """End the pause: failures so far no longer count."""
    Review.objects.filter(reviewer=reviewer, is_failure=True).update(is_failure=False)
    write_acts(Act("reviewer.reset", "human", actor, detail={"reviewer": reviewer}))
