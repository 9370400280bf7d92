"""Yes, no and unknown: the tables of a logic with three values."""

from __future__ import annotations

import json

from tests.support.tables import loop_over
from toolcards.core.policy.truth import FALSE, OPAQUE, TRUE, UNDECIDED, UNKNOWN, Truth, negate, to_truth

WEAKEST_FIRST = [FALSE, OPAQUE, UNKNOWN, TRUE]


def test_every_value_is_in_the_tables() -> None:
    assert list(Truth) == WEAKEST_FIRST and [float(truth) for truth in Truth] == sorted(float(truth) for truth in Truth)


@loop_over("first", range(4))
@loop_over("second", range(4))
def test_and_is_the_weaker_and_or_the_stronger_one(first: int, second: int) -> None:
    both = [WEAKEST_FIRST[first], WEAKEST_FIRST[second]]
    assert min(both) is WEAKEST_FIRST[min(first, second)] and max(both) is WEAKEST_FIRST[max(first, second)]


@loop_over(("truth", "opposite"), [(TRUE, FALSE), (FALSE, TRUE), (UNKNOWN, UNKNOWN), (OPAQUE, UNKNOWN)])
def test_the_opposite_of_what_is_not_known_is_not_known(truth: Truth, opposite: Truth) -> None:
    assert negate(truth) is opposite and negate(negate(truth)) is (UNKNOWN if truth is OPAQUE else truth)


@loop_over(("answer", "truth"), [(True, TRUE), (False, FALSE), (UNDECIDED, UNKNOWN)])
def test_an_answer_that_is_ambiguous_is_unknown(answer: bool | None, truth: Truth) -> None:
    assert to_truth(answer) is truth


def test_a_truth_is_a_number_in_json() -> None:
    assert json.dumps([float(truth) for truth in Truth]) == "[0.0, 0.25, 0.5, 1.0]"
