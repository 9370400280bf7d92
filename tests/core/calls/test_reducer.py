"""The reducer as a whole: rules that concern several kinds of facts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.call_facts import ASK, OK, READY, START, codes, delta
from tests.support.fact_samples import ALICE, card_after, play, seen_states
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import ToolCallState
from toolcards.core.runs.run_state import RunState

S = ToolCallState


@pytest.mark.parametrize("fact", [OK, f.OutputFailed("c"), f.OutputDenied("c"), f.OutputPartial("c"), ASK])
def test_rule_15_an_unknown_id_makes_a_card_without_a_name(fact: f.AnyFact) -> None:
    assert card_after(fact).tool.name == "unknown tool"


def test_facts_that_start_nothing_make_no_card() -> None:
    board = play(
        f.PolicyDecided("x", "ask"), f.AnomalyRecorded("x", "ungoverned"), f.ApprovalChanged("x", "claimed"), READY
    )
    assert [card.call_id for card in board.cards.values()] == ["c"]


def test_a_new_message_supersedes_questions_of_agents_but_not_ours() -> None:
    ours = [f.InputReady("d", "Bash"), f.ApprovalRequested("d", id="a1", opener="gate")]
    board = play(f.MessageStarted(message_id="m1"), READY, ASK, *ours, f.MessageStarted(message_id="m2"))
    assert [card.cause for card in board.cards.values()] == ["superseded", None]
    assert board.cards[1].approval.state == "superseded"  # type: ignore[union-attr]


# ---------------------------------------------------------------- steps, chunks
def test_a_reset_step_takes_its_cards_and_their_stragglers() -> None:
    board = play(f.StepStarted(), START, f.StepReset(), delta("{"), OK)
    assert board.find("c") is None
    assert [(card.removed, card.has_output) for card in board.cards.values()] == [(True, False)]
    play(START, board=board)
    assert board.find("c").occurrence == 2  # type: ignore[union-attr]


def test_chunks_start_go_on_and_end_by_whatever_comes_next() -> None:
    board = play(f.InputChunk("c", "Bash", '{"q":'), f.InputChunk(text="1}"), f.TextDelta(text="so"))
    assert (board.find("c").state, board.find("c").input) == (S.INPUT_AVAILABLE, {"q": 1})  # type: ignore[union-attr]
    assert board.route(f.InputChunk(text="lost")) == []


def test_another_id_ends_the_chunked_call_before() -> None:
    board = play(f.InputChunk("c", "Bash", "{}"), f.InputChunk("d", "Read", "{}"))
    assert [str(card.state) for card in board.cards.values()] == ["input-available", "input-streaming"]


def test_chunks_of_two_lanes_do_not_mix() -> None:
    lane = f.LaneStarted(lane="sub", name="helper")
    pieces = [f.InputChunk("c", "Bash", '{"a":'), f.InputChunk("d", "Read", '{"b":', "sub")]
    board = play(lane, *pieces, f.InputChunk(text="1}"), f.InputChunk(text="2}", lane="sub"), f.RunEnded())
    assert [card.input for card in board.cards.values()] == [{"a": 1}, {"b": 2}]


# ---------------------------------------------------------------- section 7, what is left of it
def test_kind_once_claimed_is_not_forgotten() -> None:
    card = card_after(f.InputStarted("c", "frobnicate", kind="read"), f.InputReady("c"))
    assert card.tool.kind == "read"


def test_invalid_input_of_an_unknown_tool_is_one_card() -> None:
    way = [START, f.InputInvalid("c", "Bash", "raw", "no such tool", per_step=True)]
    assert seen_states(*way) == ["input-streaming", "output-error"]
    assert card_after(*way).input == "raw"


def test_what_the_source_repaired_is_shown_with_what_the_model_wrote() -> None:
    card = card_after(START, delta('{"q":"1"}'), READY, OK)
    assert (card.input, card.original_input, card.repair) == ({"q": 1}, {"q": "1"}, "by the source")


def test_a_second_repair_is_refused_name_and_all() -> None:
    repairs = [f.InputRepaired("c", name, {"q": n}, "x", "renamed") for n, name in enumerate(["Bash", "Evil"])]
    card = card_after(START, *repairs)
    assert (card.tool.name, card.input, codes(card)) == ("Bash", {"q": 0}, ["protocol-violation"])


def test_preliminary_outputs_run_on_until_the_last() -> None:
    half = f.OutputPartial("c", "half")
    assert card_after(READY, half).preliminary
    completed = card_after(READY, half, half, OK)
    assert (completed.preliminary, completed.hard, completed.output) == (False, True, "done")
    assert card_after(READY, half, f.OutputFailed("c", "no")).state is S.OUTPUT_ERROR
    stopped_card = card_after(READY, half, f.RunEnded(outcome="aborted"))
    assert (stopped_card.soft, stopped_card.output) == (True, "half")


def test_an_automatic_denial_flashes_no_form() -> None:
    ask = f.ApprovalRequested("c", source_id="q1", automatic=True)
    board = RunState()
    for fact in (READY, ask, f.ApprovalAnswered("", False, source_id="q1", reason="policy"), f.OutputDenied("c")):
        play(fact, board=board)
        assert board.status == "running"
    assert (board.cards[1].state, board.cards[1].denied) == (S.OUTPUT_DENIED, "policy")


def test_approved_here_and_denied_by_a_changed_policy_there_is_denied_but_was_approved() -> None:
    card = card_after(READY, ASK, f.ApprovalAnswered("c", True, by=ALICE), f.OutputDenied("c", "policy changed"))
    assert (card.state, card.denied) == (S.OUTPUT_DENIED, "policy changed")
    assert card.approval and card.approval.state == "approved"


def test_a_snapshot_corrects_done_to_failed_once() -> None:
    card = card_after(READY, f.OutputReady("c", '{"error":"boom"}'), f.SnapshotReceived("c", "boom", "boom"), OK)
    assert (card.state, card.error and card.error.message) == (S.OUTPUT_ERROR, "boom")
    assert codes(card) == ["corrected-by-snapshot", "conflicting-terminal"]


@pytest.mark.parametrize(
    ("outcome", "state", "soft"),
    [("failed", "output-error", False), ("retried", "output-error", False), ("denied", "output-denied", False),
     ("interrupted", "output-error", True), ("success", "output-available", False)],
)  # fmt: skip
def test_a_mark_tells_how_the_result_it_names_really_ended(outcome: Any, state: str, soft: bool) -> None:
    card = card_after(READY, f.OutputReady("c", "text", "msg1"), f.OutcomeReported("", outcome, "msg1"))
    assert (card.state, card.soft) == (state, soft)
    assert card_after(READY, f.OutputReady("c", "text", "msg1"), f.OutcomeReported("c", outcome, "other")).hard


def test_an_expired_question_is_denied_by_the_clock() -> None:
    card = card_after(READY, ASK, f.CallClosed("c", "expired"), f.ApprovalAnswered("c", True, by=ALICE))
    assert (card.state, card.approval and card.approval.state) == (S.OUTPUT_DENIED, "expired")
    assert card.denied_by == f.Actor("timeout")


def test_a_question_about_an_unseen_call_shows_what_it_asks_for() -> None:
    card = card_after(f.ApprovalRequested("c", source_id="q1", tool="Bash", input={"command": "ls"}))
    assert (card.tool.name, card.tool.kind, card.input) == ("Bash", "execute", {"command": "ls"})


def test_batched_questions_without_ids_find_their_calls_in_order() -> None:
    calls = [f.InputReady(name, "Bash", {"q": 1}, True) for name in ("c", "d")]
    asks = [f.ApprovalRequested("", source_id=q, tool="Bash", input={"q": 1}) for q in ("q1", "q2")]
    board = play(*calls, *asks)
    assert [card.approval and card.approval.source_id for card in board.cards.values()] == ["q1", "q2"]


def test_rule_20_the_end_of_an_unknown_scope_ends_nothing() -> None:
    assert card_after(READY, f.RunEnded(scope="elsewhere", outcome="aborted")).state is S.INPUT_AVAILABLE


def test_rule_11_a_nameless_question_asked_again_is_the_same_question() -> None:
    once = card_after(READY, f.ApprovalRequested("c", id="a1"))
    assert card_after(READY, f.ApprovalRequested("c", id="a1"), f.ApprovalRequested("c", id="a2")).rev == once.rev
