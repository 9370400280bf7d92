"""Inputs, rule 8: the same input again changes nothing, and another one ends a question."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.call_facts import ASK, READY, START, delta
from tests.support.fact_samples import card_after
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import ToolCallState

S = ToolCallState


def test_rule_8_the_same_input_again_changes_nothing_and_voids_no_approval() -> None:
    card = card_after(START, delta('{"q": 1}'), f.InputReady("c"), ASK)
    again = card_after(START, delta('{"q": 1}'), f.InputReady("c"), ASK, START, delta('{"q":'), delta("1}"), READY)
    assert (again.rev, again.input, again.state, again.segment) == (card.rev, {"q": 1}, S.APPROVAL_REQUESTED, None)
    assert not again.repair


def test_rule_8_numbers_that_mean_the_same_void_no_approval_but_true_is_not_one() -> None:
    card = card_after(READY, ASK)
    assert card_after(READY, ASK, f.InputReady("c", "Bash", {"q": 1.0}, True)).rev == card.rev
    assert card_after(READY, ASK, f.InputReady("c", "Bash", {"q": True}, True)).rev > card.rev


@pytest.mark.parametrize(
    ("old", "segment", "expected_value"),
    [
        ('{"a": 1}', '{"a": 2}', {"a": 2}),  # the segment alone
        ('{"a": ', "2}", {"a": 2}),  # both joined
        ('{"a": 1}', '{"a"', '{"a"'),  # the raw segment
    ],
)
def test_rule_8_a_segment_counts_alone_then_joined_then_raw(old: str, segment: str, expected_value: Any) -> None:
    card = card_after(START, delta(old), f.InputReady("c"), START, delta(segment), f.InputReady("c"))
    assert card.shown_input == expected_value
    assert card.state is S.INPUT_AVAILABLE


def test_rule_8_a_replayed_start_does_not_double_what_streamed() -> None:
    card = card_after(START, delta('{"q": '), START, delta('{"q": 1}'), f.InputReady("c"))
    assert (card.input, card.original_input) == ({"q": 1}, None)


def test_rule_8_a_changed_input_changes_the_revision_under_a_waiting_approval() -> None:
    card = card_after(READY, ASK)
    changed = card_after(READY, ASK, f.InputReady("c", "Bash", {"q": 2}, True))
    assert changed.rev > card.rev
    assert changed.state is S.APPROVAL_REQUESTED
