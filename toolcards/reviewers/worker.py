"""Asks the reviewers about new questions, in a thread pool, and lets the gate record what became of each.

A question stays with people meanwhile. A process begins a review once; if it dies, the review ends without an answer.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from django.db import connections
from django.db.models import Q

from toolcards import gate, outages
from toolcards.audit.trail import Act, write_acts
from toolcards.core.policy.reviewer import Reviewer
from toolcards.core.review.review_answer import build_call
from toolcards.database import report_outage
from toolcards.encryption import get_redactor
from toolcards.gate import ReviewOutcome, policy_store
from toolcards.models import Review
from toolcards.reviewers import reviewer_requests
from toolcards.reviewers.reviewer_requests import ReviewFailed, ReviewQuestion

# The circuit breaker: after three failures in a row a reviewer is left alone, and people are asked at once.
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


log = logging.getLogger(__name__)
AT_ONCE = 8  # reviews of one process
MAX_UNFINISHED = 100  # reviews that one round looks at
STALLED = 180.0  # seconds after which a review has no process: the longest time of a reviewer, and some more


class ReviewTurns:
    """Runs reviews, each in one thread. Those that find no thread stay open for the next round, in any process."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="review")
        self._free = threading.Semaphore(AT_ONCE)

    def begin(self) -> None:
        """Begin as many open reviews as there are free threads."""
        now = time.time()
        states = dict(Review.objects.unfinished().values_list("pk", "state")[:MAX_UNFINISHED])
        if "asking" in states.values():
            gate.record_stalled_reviews(now - STALLED)
        for pk in [pk for pk, state in states.items() if state == "open"]:
            if not self._free.acquire(blocking=False):
                return
            if Review.objects.take(pk, now):
                self._pool.submit(self._run, pk)
            else:
                self._free.release()

    def _run(self, pk: int) -> None:
        try:
            gate.record_review(run_review(pk))
        except Exception as error:  # it counts as stalled later
            if not report_outage(error, outages.SENDING):
                log.exception("reviews: review %s failed", pk)
        finally:
            connections.close_all()  # the thread may be idle for long
            self._free.release()

    def close(self) -> None:
        """Begin no more reviews."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def run_review(pk: int) -> ReviewOutcome:
    """Ask the reviewer, and return the outcome of the review."""
    review = Review.objects.select_related("approval__call").get(pk=pk)
    reviewer = _find_reviewer(review)
    note = _explain_skip(review, reviewer, time.time())
    if note or reviewer is None:
        return ReviewOutcome(pk, review.approval_id, note=note)
    question = ReviewQuestion(
        f"rev_{pk}", build_call(get_redactor().card(review.approval.call.as_card())), review.args_sha256
    )
    began = time.monotonic()
    try:
        answer = reviewer_requests.ask(reviewer, question)
        if time.monotonic() - began > reviewer.seconds + 1:
            raise ReviewFailed("No answer in time.")
    except ReviewFailed as failure:
        return ReviewOutcome(pk, review.approval_id, note=str(failure), is_failure=True)
    except Exception as error:  # a bug of ours must not hold the question
        log.exception("reviews: %s could not be asked", review.reviewer)
        return ReviewOutcome(
            pk, review.approval_id, note=f"It could not be asked ({type(error).__name__}).", is_failure=True
        )
    return ReviewOutcome(pk, review.approval_id, answer)


def _find_reviewer(review: Review) -> Reviewer | None:
    try:
        return policy_store.get_active_policy().reviewers.get(review.reviewer)
    except policy_store.NoActivePolicy:
        return None


def _explain_skip(review: Review, reviewer: Reviewer | None, now: float) -> str:
    """Return why the reviewer is not asked, "" if it is."""
    if reviewer is None or reviewer.sha256 != review.reviewer_sha256:
        return "The policy changed meanwhile."
    if not review.is_shadow and review.approval.state != "pending":
        return "The call was answered or withdrawn before."
    if not review.is_shadow and now > review.created_at + reviewer.seconds:
        return "It could not be asked in time."
    if not may_ask(review, now):
        return "It is not asked at the moment, because it failed three times in a row."
    return ""
