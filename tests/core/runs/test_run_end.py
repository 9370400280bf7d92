"""The end of a run, rules 17 to 20: what it does to each open call, and to which."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from tests.support.call_facts import ASK, OURS, READY, START, codes, delta
from tests.support.fact_samples import ALICE, card_after, play
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import ToolCallState
from toolcards.core.runs.run_context import RunContext
from toolcards.core.runs.run_end import ends_run

S = ToolCallState


def test_rule_17_an_error_alone_ends_nothing_and_explains_the_end() -> None:
    assert card_after(READY, f.ErrorReported(message="overloaded")).state is S.INPUT_AVAILABLE
    card = card_after(READY, f.ErrorReported(message="overloaded"), f.RunEnded(outcome="truncated"))
    assert (card.cause, card.error and card.error.message) == ("run-error", "overloaded")


def test_rule_18_a_run_that_ends_over_open_calls_completes_them_first() -> None:
    card = card_after(START, delta('{"q": 1}'), f.RunEnded(close_open_input=True))
    assert (card.state, card.awaiting_client, card.input) == (S.INPUT_AVAILABLE, True, {"q": 1})
    assert codes(card) == ["protocol-violation"]


def test_rule_20_an_end_closes_only_its_own_scope() -> None:
    one, two = f.InputReady("one", "Bash"), f.InputReady("two", "Bash")
    board = play(f.RunStarted(scope="A"), one, f.RunStarted(scope="B"), two, f.RunEnded(scope="A", outcome="aborted"))
    assert [card.soft for card in board.cards.values()] == [True, False]
    assert board.status == "running"


def test_rule_20_a_lane_ends_alone_and_with_its_run() -> None:
    lane = f.LaneStarted(lane="sub", name="helper", parent_call="p")
    calls = [f.InputReady("p", "Task"), lane, f.InputReady("c", "Bash", lane="sub")]
    board = play(*calls, f.RunEnded(lane="sub", outcome="error"))
    assert [card.soft for card in board.cards.values()] == [False, True]
    assert (board.status, board.cards[2].agent_path, board.cards[2].parent_call) == ("running", ("main", "helper"), "p")
    assert [card.soft for card in play(*calls, f.RunEnded(outcome="aborted")).cards.values()] == [True, True]


def test_a_resumed_run_ends_what_the_interrupted_one_left_running() -> None:
    yes = f.ApprovalAnswered("c", True)
    first = [f.RunStarted(scope="A"), READY, ASK, f.RunEnded(outcome="interrupt"), yes]
    card = card_after(*first, f.RunStarted(scope="B"), f.RunEnded(outcome="error", reason="boom"))
    assert (card.soft, card.cause) == (True, "run-error")


@pytest.mark.parametrize("outcome", get_args(f.Outcome))
def test_our_own_question_is_cancelled_when_the_run_ends_however_it_ends(outcome: f.Outcome) -> None:
    card = card_after(READY, OURS, f.RunEnded(outcome=outcome))
    assert (card.state, card.soft, card.cause) == (S.OUTPUT_ERROR, True, "aborted")
    assert card.approval and card.approval.state == "cancelled"


def test_an_approved_but_unused_permit_dies_with_the_run_and_a_claimed_one_is_unknown() -> None:
    approved = [READY, OURS, f.ApprovalAnswered("c", True, by=ALICE)]
    assert card_after(*approved, f.RunEnded()).approval.state == "cancelled"  # type: ignore[union-attr]
    claimed_card = card_after(*approved, f.ApprovalChanged("c", "claimed", id="a1"), f.RunEnded())
    assert claimed_card.approval and claimed_card.approval.state == "unknown"


def test_an_answer_that_a_person_gave_stays_on_a_card_that_was_stopped_later() -> None:
    card = card_after(READY, ASK, f.ApprovalAnswered("c", True, by=ALICE), f.RunEnded(outcome="aborted"))
    assert card.approval and (card.approval.state, card.approval.by) == ("approved", ALICE)


def test_a_late_run_error_ends_what_waits_for_the_client_and_nothing_hard() -> None:
    board = play(READY, f.InputReady("d", "Bash"), f.OutputReady("d", 1), f.RunEnded())
    assert board.find("c").awaiting_client  # type: ignore[union-attr]
    play(f.RunEnded(outcome="error", reason="late"), board=board)
    assert [(str(card.state), card.cause) for card in board.cards.values()] == [
        ("output-error", "run-error"),
        ("output-available", None),
    ]


@loop_over("end, expected", [
    (f.RunEnded(), True),
    (f.RunEnded(scope="now"), True),
    (f.RunEnded(scope="earlier"), False),
    (f.RunEnded(scope="unknown"), False),
    (f.RunEnded(scope="earlier", or_current=True), False),
    (f.RunEnded(scope="unknown", or_current=True), True),
    (f.RunEnded(lane="helper"), False),
    (f.RunEnded(lane="helper", or_current=True), False),
    (f.RunEnded(again=True), True),
])  # fmt: skip
def test_an_end_is_that_of_the_run_if_it_names_the_current_scope_and_no_sub_agent(
    end: f.RunEnded, expected: bool
) -> None:
    assert ends_run(end, RunContext(scope="now", scopes=["earlier", "now"])) is expected
    has_ended = RunContext(scope="now", scopes=["earlier"], ended="ok")
    assert ends_run(replace(end, again=True), has_ended) is False
