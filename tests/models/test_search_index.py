"""The search index: rows come out of a block as they went in, and no call that may match is left out."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import pytest
from django.db import IntegrityError, transaction
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from toolcards.encryption import UnreadableText
from toolcards.models import SearchBlock, SearchSegment, search_index
from toolcards.models.search_index import ROWS, find_candidates, pack_rows, unpack_rows


@draw(100)
@given(st.integers(0, 200).flatmap(lambda count: st.tuples(
    st.just(count), st.lists(st.integers(0, (1 << count) - 1), min_size=ROWS, max_size=ROWS)
)))  # fmt: skip
def test_rows_come_out_of_a_block_as_they_went_in(block: tuple[int, list[int]]) -> None:
    count, rows = block
    assert unpack_rows(pack_rows(rows, count)) == rows


def test_without_its_key_every_call_of_a_block_may_match() -> None:
    assert unpack_rows(UnreadableText("")) == [-1] * ROWS


def add_segment(first_pk: int, signatures: list[frozenset[int]]) -> SearchSegment:
    """Add calls with these bits, and consecutive primary keys."""
    pks = array("q", range(first_pk, first_pk + len(signatures)))
    segment = SearchSegment.objects.create(calls=pks.tobytes(), count=len(pks))
    for number in range(3):  # of the bits that these tests use
        rows = [
            sum(1 << place for place, bits in enumerate(signatures) if number * ROWS + row in bits)
            for row in range(ROWS)
        ]
        SearchBlock.objects.create(segment=segment, number=number, rows=pack_rows(rows, len(pks)))
    return segment


BITS = st.frozensets(st.integers(0, 3 * ROWS - 1), max_size=6)


def model(calls: dict[int, frozenset[int]], needles: Iterable[frozenset[int]]) -> list[int]:
    return sorted((pk for pk, bits in calls.items() if any(needle <= bits for needle in needles)), reverse=True)


@pytest.mark.django_db
@draw(60)
@given(
    st.lists(st.lists(BITS, min_size=1, max_size=12), max_size=3),
    st.lists(BITS.filter(bool), min_size=1, max_size=2),
    st.sampled_from([0, 1, 5, 105]),
)
def test_the_calls_with_all_bits_of_a_needle_are_found_newest_first(
    segments: list[list[frozenset[int]]], needles: list[frozenset[int]], before: int
) -> None:
    with transaction.atomic():
        calls: dict[int, frozenset[int]] = {}
        for number, signatures in enumerate(segments):
            add_segment(1 + 100 * number, signatures)
            calls |= {1 + 100 * number + place: bits for place, bits in enumerate(signatures)}
        expected = [pk for pk in model(calls, needles) if not before or pk < before]
        assert find_candidates(needles, before) == expected
        transaction.set_rollback(True)


@pytest.mark.django_db
def test_a_needle_that_many_calls_of_a_large_index_have_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    add_segment(1, [frozenset({1})] * 3 + [frozenset({2})] * 5)
    assert find_candidates([frozenset({1})]) == [3, 2, 1]
    monkeypatch.setattr(search_index, "SMALL", 7)
    assert find_candidates([frozenset({1})]) is None  # three of eight are more than a quarter
    assert find_candidates([frozenset({3})]) == []
    add_segment(100, [frozenset({2})] * 4)
    assert find_candidates([frozenset({1})]) == [3, 2, 1]  # three of twelve are not


@pytest.mark.django_db
def test_a_segment_goes_with_its_blocks_and_has_each_of_them_once() -> None:
    segment = add_segment(5, [frozenset({1})])
    assert list(segment.call_ids) == [5] and str(segment) == "1 calls"
    with pytest.raises(IntegrityError), transaction.atomic():
        SearchBlock.objects.create(segment=segment, number=0, rows="")
    segment.delete()
    assert not SearchBlock.objects.exists()
