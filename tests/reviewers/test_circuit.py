"""Three failures in a row open the circuit; a pause, an answer or an admin closes it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.reviewers import NAME, answer_review, build_policy, fail_review
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.models import Review, Source
from toolcards.reviewers import circuit

pytestmark = pytest.mark.django_db(transaction=True)


def review_each(source: Source, *outcomes: str) -> None:
    """Ask and review one call for each outcome: an answer, or "" for a failure."""
    for outcome in outcomes:
        call = f"c{Review.objects.count()}"
        gate.decide(source, gate.DecisionRequest("r", call, "bash", {"command": call}))
        answer_review(outcome) if outcome else fail_review()


@pytest.mark.parametrize(
    ("outcomes", "is_open"),
    [
        (("", "", ""), True), (("allow", "", "", ""), True), (("", ""), False), (("", "", "ask"), False),
        (("", "", "deny", ""), False), (("", "ask", "", ""), False), ((), False),
    ],
)  # fmt: skip
def test_three_failures_in_a_row_open_the_circuit(
    source: Source, policy: Any, an_approver: Any, outcomes: tuple[str, ...], is_open: bool
) -> None:
    policy(build_policy())
    review_each(source, *outcomes)
    assert (circuit.get_end_of_pause(NAME) > time.time()) is is_open
    assert circuit.get_end_of_pause("another") == 0.0


def test_after_the_pause_one_question_tries_it(source: Source, policy: Any, an_approver: Any) -> None:
    policy(build_policy())
    review_each(source, "", "", "")
    for call in ("x", "y"):
        gate.decide(source, gate.DecisionRequest("r", call, "bash", {"command": call}))
    first, second = Review.objects.filter(state="open").order_by("pk")
    now = time.time()
    assert not circuit.may_ask(first, now) and circuit.may_ask(first, now + circuit.PAUSE + 1)
    Review.objects.take(first.pk, now)
    assert not circuit.may_ask(second, now + circuit.PAUSE + 1)


def test_an_admin_ends_the_pause(source: Source, policy: Any, an_approver: Any) -> None:
    policy(build_policy())
    review_each(source, "", "", "")
    circuit.reset(NAME, "ann")
    assert circuit.get_end_of_pause(NAME) == 0.0
    assert AuditRow.objects.get(act="reviewer.reset").details == {"reviewer": NAME}
