"""Sequence numbers: each is new once, in any order, and gaps are bounded."""

import random

import pytest

from tests.support.tables import loop_over
from toolcards.core.runs import sequence_set


@loop_over("seed", range(20))
def test_each_number_is_new_once_in_whatever_order_they_come(seed):
    chance = random.Random(seed)
    numbers = [chance.randrange(1, 60) for _ in range(200)]
    ranges, expected_numbers = [0], set()
    for number in numbers:
        assert sequence_set.is_new(ranges, number) == (number not in expected_numbers)
        if number not in expected_numbers:
            sequence_set.add(ranges, number)
            expected_numbers.add(number)
    for number in set(range(1, 60)) - expected_numbers:
        sequence_set.add(ranges, number)
    assert ranges == [59]


def test_the_next_number_is_noted_at_once_only_where_nothing_is_missing():
    ranges = [3]
    assert [sequence_set.add_next(ranges, number) for number in (4, 4, 6, ("a", 5), 5)] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert ranges == [5]
    sequence_set.add(ranges, 7)
    assert not sequence_set.add_next(ranges, 6) and ranges == [5, [7, 7]]


def test_ranges_stay_apart_in_order_and_join():
    ranges = [0]
    for number in (5, 9, 6, 20, 8):
        sequence_set.add(ranges, number)
    assert ranges == [0, [5, 6], [8, 9], [20, 20]]
    sequence_set.add(ranges, 7)
    assert ranges == [0, [5, 9], [20, 20]]
    for number in (1, 2, 3, 4):
        sequence_set.add(ranges, number)
    assert ranges == [9, [20, 20]]


def test_what_older_versions_stored_is_read():
    ranges = [3, 7, 9]
    assert [sequence_set.is_new(ranges, number) for number in (3, 4, 7, 8, 9)] == [False, True, False, True, False]
    sequence_set.add(ranges, 8)
    assert ranges == [3, [7, 9]]


def test_a_gap_too_many_is_refused_and_closing_one_never_is():
    ranges = [0]
    for number in range(2, 2 * sequence_set.MAX_GAPS + 2, 2):
        assert sequence_set.is_new(ranges, number)
        sequence_set.add(ranges, number)
    assert len(ranges) == sequence_set.MAX_GAPS + 1
    with pytest.raises(sequence_set.TooManyGaps):
        sequence_set.is_new(ranges, 10**17)
    assert sequence_set.is_new(ranges, 1) and sequence_set.is_new(ranges, 2 * sequence_set.MAX_GAPS + 1)
    assert not sequence_set.is_new(ranges, 2)


def test_a_stream_with_its_own_numbers_keeps_its_last_number_apart_from_the_others():
    ranges = [0]
    for number in (("a", 0), 1, ("b", 0), ("a", 1), 3):
        assert sequence_set.is_new(ranges, number)
        sequence_set.add(ranges, number)
    assert ranges == [1, [3, 3], {"b": 0, "a": 1}]
    assert [sequence_set.is_new(ranges, number) for number in (("a", 1), ("b", 1), ("c", 0), 2, 3)] == [
        False, True, True, True, False,
    ]  # fmt: skip
    for other in range(2 * sequence_set.MAX_STREAMS):
        sequence_set.add(ranges, (f"s{other}", 0))
    assert len(ranges[-1]) == sequence_set.MAX_STREAMS
