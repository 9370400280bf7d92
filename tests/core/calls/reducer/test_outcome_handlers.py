"""Ends of calls, rules 1 to 7: what counts when results, errors and denials meet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.call_facts import ASK, OK, OURS, READY, START, codes, delta
from tests.support.fact_samples import ALICE, SAMPLES, WAYS, card_after, play, seen_states
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import ToolCallState
from toolcards.core.calls.reducer.outcome_handlers import MAX_JOINED_TEXT

S = ToolCallState


@loop_over("way", ["OA", "OE", "OD"])
@loop_over("fact", SAMPLES, ids=lambda fact: fact.type)
def test_rule_1_a_hard_terminal_is_never_downgraded(way: str, fact: f.AnyFact) -> None:
    before = card_after(*WAYS[way])
    after = play(*WAYS[way], fact).cards[1]
    corrects = isinstance(fact, (f.OutcomeReported, f.SnapshotReceived)) and way == "OA"
    assert after.state == before.state or corrects
    assert after.hard


def test_rule_1_a_conflicting_terminal_is_noted_and_not_applied() -> None:
    card = card_after(READY, OK, f.OutputFailed("c", "no"))
    assert (card.state, card.output, card.error) == (S.OUTPUT_AVAILABLE, "done", None)
    assert codes(card) == ["conflicting-terminal"]


def test_rule_2_what_an_agent_sends_after_its_own_denial_is_only_detail() -> None:
    card = card_after(READY, ASK, f.ApprovalAnswered("c", False), f.OutputFailed("c", "User declined"))
    assert (card.state, card.detail, codes(card)) == (S.OUTPUT_DENIED, "User declined", [])


def test_rule_2_a_result_after_our_denial_is_kept_and_flagged() -> None:
    card = card_after(READY, OURS, f.ApprovalAnswered("c", False, by=ALICE), OK)
    assert (card.state, card.detail, codes(card)) == (S.OUTPUT_DENIED, "done", ["ran-without-approval"])
    assert card.output is None


@pytest.mark.parametrize("outcome", ["aborted", "error", "truncated", "not-executed"])
def test_rule_3_a_straggler_replaces_a_soft_terminal(outcome: f.Outcome) -> None:
    card = card_after(READY, f.RunEnded(outcome=outcome), OK)
    assert (card.state, card.soft, card.cause, card.error) == (S.OUTPUT_AVAILABLE, False, None, None)


def test_rule_3_input_never_revives_a_soft_terminal() -> None:
    card = card_after(START, f.RunEnded(outcome="aborted"), START, delta("{}"), READY)
    assert (card.state, card.soft, card.cause) == (S.OUTPUT_ERROR, True, "aborted")


def test_rule_4_an_end_after_the_result_completes_the_input() -> None:
    card = card_after(f.OutputReady("c", 1), READY)
    assert (card.state, card.input, card.tool.name) == (S.OUTPUT_AVAILABLE, {"q": 1}, "Bash")


def test_rule_5_a_result_before_the_end_is_applied_at_once() -> None:
    states = seen_states(START, delta('{"q":'), OK, delta("1}"), f.InputReady("c"), f.RunEnded())
    assert states == ["input-streaming", "output-available"]
    assert card_after(START, delta('{"q":'), OK, delta("1}"), f.InputReady("c")).input == {"q": 1}


def test_rule_6_an_empty_error_is_an_error() -> None:
    card = card_after(READY, f.OutputFailed("c", ""))
    assert (card.state, card.error and card.error.message) == (S.OUTPUT_ERROR, "")


@pytest.mark.parametrize("output", [None, 0, False, "", [], {}])
def test_rule_6_empty_output_is_output(output: Any) -> None:
    card = card_after(READY, f.OutputReady("c", output))
    assert (card.state, card.has_output, card.output) == (S.OUTPUT_AVAILABLE, True, output)


@pytest.mark.parametrize("first", ["", "An error occurred."])
def test_rule_7_a_second_error_fills_a_text_that_said_nothing(first: str) -> None:
    card = card_after(READY, f.OutputFailed("c", first), f.OutputFailed("c", "disk full"))
    assert card.error and card.error.message == "disk full"


def test_rule_7_the_first_telling_payload_stays() -> None:
    failed = card_after(READY, f.InputInvalid("c", message="first"), f.OutputFailed("c", "second"))
    assert failed.error and failed.error.message == "first"
    completed = card_after(READY, OK, f.OutputReady("c", "other"))
    assert (completed.output, codes(completed)) == ("done", ["duplicate-terminal"])
    assert card_after(READY, OK, OK).rev == card_after(READY, OK).rev


PIECES = st.lists(st.tuples(st.sampled_from(["a", "bc", "\n", "long" * 30_000]), st.booleans()), max_size=8)
RESULTS = st.sampled_from([(None, True), ("the result", False), ("", False), (None, False)])


@given(PIECES, RESULTS)
def test_pieces_of_a_terminal_are_joined_until_a_whole_text_or_the_result_comes(
    pieces: list[tuple[str, bool]], result: tuple[str | None, bool]
) -> None:
    joined_text: str | None = None  # the model: what a reader of the terminal sees
    facts: list[f.AnyFact] = []
    for text, is_piece in pieces:
        joined_text = ((joined_text or "") + text)[-MAX_JOINED_TEXT:] if is_piece else text
        facts.append(f.OutputPartial("c", text, more=is_piece))
        card = card_after(READY, *facts)
        assert (card.output, card.preliminary, card.state) == (joined_text, True, S.OUTPUT_AVAILABLE)
    output, is_unchanged = result
    card = card_after(READY, *facts, f.OutputReady("c", output, unchanged=is_unchanged))
    assert (card.output, card.preliminary) == (joined_text if is_unchanged else output, False)
    assert card_after(READY, *facts, f.OutputReady("c", output, unchanged=is_unchanged), *facts).output == card.output
