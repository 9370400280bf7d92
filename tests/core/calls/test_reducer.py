"""The reducer: the twenty rules of the state machine, and worked examples with facts."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.support.fact_samples import ALICE, SAMPLES, WAYS, card_after, play, seen_states
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.runs.run_state import RunState

S = ToolCallState
START = f.InputStarted("c", "Bash", per_step=True)
READY = f.InputReady("c", "Bash", {"q": 1}, True, per_step=True)
OK = f.OutputReady("c", "done")
ASK = f.ApprovalRequested("c", source_id="q1")
OURS = f.ApprovalRequested("c", id="a1", opener="gate")


def delta(text: str) -> f.InputDelta:
    return f.InputDelta("c", text)


def codes(card: Card) -> list[str]:
    return [code for code, _ in card.anomalies]


# ---------------------------------------------------------------- 1 to 7: terminals


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
    assert (card.state, card.detail, codes(card)) == (S.OUTPUT_DENIED, "done", ["conflicting-terminal"])
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


# ---------------------------------------------------------------- 8: the input is sent again


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
    ("old", "segment", "meant"),
    [
        ('{"a": 1}', '{"a": 2}', {"a": 2}),  # the segment alone
        ('{"a": ', "2}", {"a": 2}),  # both joined
        ('{"a": 1}', '{"a"', '{"a"'),  # the raw segment
    ],
)
def test_rule_8_a_segment_counts_alone_then_joined_then_raw(old: str, segment: str, meant: Any) -> None:
    card = card_after(START, delta(old), f.InputReady("c"), START, delta(segment), f.InputReady("c"))
    assert card.shown_input == meant
    assert card.state is S.INPUT_AVAILABLE


def test_rule_8_a_replayed_start_does_not_double_what_streamed() -> None:
    card = card_after(START, delta('{"q": '), START, delta('{"q": 1}'), f.InputReady("c"))
    assert (card.input, card.original_input) == ({"q": 1}, None)


def test_rule_8_a_changed_input_changes_the_revision_under_a_waiting_approval() -> None:
    card = card_after(READY, ASK)
    changed = card_after(READY, ASK, f.InputReady("c", "Bash", {"q": 2}, True))
    assert changed.rev > card.rev
    assert changed.state is S.APPROVAL_REQUESTED


# ---------------------------------------------------------------- 9 and 10: occurrences and replay


def test_rule_9_the_same_id_in_a_later_step_is_a_new_call() -> None:
    board = play(f.StepStarted(), START, READY, OK, f.StepStarted(), START, READY)
    assert [(card.occurrence, str(card.state)) for card in board.cards.values()] == [
        (1, "output-available"),
        (2, "input-available"),
    ]


def test_rule_9_where_ids_are_unique_per_thread_the_same_id_is_a_replay() -> None:
    once = f.InputStarted("c", "Bash")
    assert len(play(f.StepStarted(), once, OK, f.StepStarted(), once, OK).cards) == 1


def test_rule_9_a_later_attempt_is_a_new_call() -> None:
    again = f.InputReady("c", "Bash", {"q": 1}, True, attempt=2)
    assert len(play(READY, f.OutputFailed("c", "no"), again).cards) == 2


def test_rule_10_a_replayed_message_makes_no_second_cards() -> None:
    message = [f.MessageStarted(message_id="m"), f.StepStarted(), START, delta('{"q": 1}'), READY, OK, f.StepFinished()]
    second = [f.StepStarted(), START, READY]
    board = play(*message, *second)
    before = dict(board.cards)
    play(*message, *second, board=board)
    assert {n: (c.state, c.rev, c.input) for n, c in board.cards.items()} == {
        n: (c.state, c.rev, c.input) for n, c in before.items()
    }


def test_rule_10_a_replayed_result_stays_with_its_own_step() -> None:
    message = [f.MessageStarted(message_id="m"), f.StepStarted(), START, READY, OK, f.StepStarted(), START, READY]
    board = play(*message, *message[:5])
    assert [str(card.state) for card in board.cards.values()] == ["output-available", "input-available"]


def test_rule_10_a_resumed_message_continues_with_new_steps() -> None:
    first = [f.MessageStarted(message_id="m"), f.StepStarted(), READY, ASK, f.RunEnded()]
    board = play(*first, f.MessageStarted(message_id="m"), OK, f.StepStarted(), START, READY)
    assert [(card.step, str(card.state)) for card in board.cards.values()] == [
        (1, "output-available"),
        (2, "input-available"),
    ]


# ---------------------------------------------------------------- 11 to 15: approvals


def test_rule_11_the_first_decision_wins() -> None:
    yes, no = f.ApprovalAnswered("c", True, by=ALICE), f.ApprovalAnswered("c", False, by=ALICE)
    card = card_after(READY, ASK, yes, no)
    assert (card.state, card.approval and card.approval.state) == (S.APPROVAL_RESPONDED, "approved")
    assert codes(card) == ["late-response"]


def test_rule_11_an_agents_answer_never_settles_our_approval() -> None:
    card = card_after(READY, OURS, f.ApprovalAnswered("c", True))
    assert (card.state, card.waiting, codes(card)) == (S.APPROVAL_REQUESTED, True, ["late-response"])
    denied = card_after(READY, OURS, f.OutputDenied("c", "no"))
    assert denied.approval and denied.approval.state == "cancelled"


def test_rule_11_an_answer_to_another_question_counts_not() -> None:
    card = card_after(READY, ASK, f.ApprovalAnswered("c", True, source_id="q9"))
    assert (card.state, codes(card)) == (S.APPROVAL_REQUESTED, ["late-response"])


def test_rule_11_automatic_requests_do_not_wait() -> None:
    board = play(READY, f.ApprovalRequested("c", source_id="q1", automatic=True))
    assert (board.find("c").state, board.status) == (S.APPROVAL_REQUESTED, "running")  # type: ignore[union-attr]


def test_rule_11_the_agents_question_does_not_replace_ours_and_ours_replaces_the_agents() -> None:
    ours_first = card_after(READY, OURS, ASK)
    ours_last = card_after(READY, ASK, OURS)
    assert [c.approval and c.approval.opener for c in (ours_first, ours_last)] == ["gate", "gate"]


def test_rule_11_our_gate_may_ask_again_after_an_answer() -> None:
    entries = [READY, OURS, f.ApprovalAnswered("c", True, by=ALICE)]
    card = card_after(*entries, f.ApprovalRequested("c", id="a2", opener="gate"))
    assert (card.state, card.approval and card.approval.id) == (S.APPROVAL_REQUESTED, "a2")
    assert codes(card_after(*entries, OURS)) == ["protocol-violation"]


@pytest.mark.parametrize("approved", [True, False])
def test_rule_10_a_replayed_question_and_its_answer_are_no_news(approved: bool) -> None:
    facts, answer = f.ApprovalRequested("c", source_id="q1"), f.ApprovalAnswered("c", approved, source_id="q1")
    end = OK if approved else f.OutputDenied("c", "no")
    before = card_after(READY, facts, answer, end)
    after = card_after(READY, facts, answer, end, facts, answer, end)
    assert (after.state, after.approval, codes(after)) == (before.state, before.approval, [])
    other = f.ApprovalAnswered("c", not approved, source_id="q1")
    assert codes(card_after(READY, facts, answer, end, other)) == ["late-response"]


def test_rule_11_the_wire_may_tell_the_answer_that_was_given_here() -> None:
    facts, no = f.ApprovalRequested("c", source_id="q1"), f.ApprovalAnswered("c", False, source_id="q1", by=ALICE)
    echoed = f.ApprovalAnswered("", False, source_id="q1", by=f.Actor("host"))
    assert codes(card_after(READY, facts, no, echoed)) == []
    assert codes(card_after(READY, facts, no, f.ApprovalAnswered("", True, source_id="q1"))) == ["late-response"]


@pytest.mark.parametrize(("by", "state"), [(ALICE, "succeeded"), (f.Actor("host"), "approved")])
def test_a_result_proves_that_the_agent_has_the_answer_to_its_own_question(by: f.Actor, state: str) -> None:
    card = card_after(READY, ASK, f.ApprovalAnswered("c", True, by=by), OK)
    assert card.approval and card.approval.state == state


def test_rule_11_an_edited_input_is_shown_with_its_original() -> None:
    card = card_after(READY, ASK, f.ApprovalAnswered("c", True, by=ALICE, input={"q": 2}, has_input=True))
    assert (card.input, card.original_input, card.repair) == ({"q": 2}, {"q": 1}, "edited")


@pytest.mark.parametrize(
    "end", [f.RunEnded(outcome="aborted"), f.CallClosed("c", "expired"), f.CallClosed("c", "superseded")]
)
def test_rule_13_an_answer_after_the_end_changes_nothing(end: f.AnyFact) -> None:
    before, after = card_after(READY, ASK, end), card_after(READY, ASK, end, f.ApprovalAnswered("c", True, by=ALICE))
    assert (after.state, after.approval) == (before.state, before.approval)
    assert codes(after) == ["late-response"]


def test_rule_14_a_result_while_we_wait_is_accepted_and_flagged() -> None:
    card = card_after(READY, OURS, OK)
    assert (card.state, codes(card)) == (S.OUTPUT_AVAILABLE, ["ran-without-approval"])
    assert card.approval and card.approval.state == "cancelled"


@pytest.mark.parametrize("fact", [OK, f.OutputFailed("c"), f.OutputDenied("c"), f.OutputPartial("c"), ASK])
def test_rule_15_an_unknown_id_makes_a_card_without_a_name(fact: f.AnyFact) -> None:
    assert card_after(fact).tool.name == "unknown tool"


def test_rule_15_an_answer_before_its_question_is_held_for_it() -> None:
    card = card_after(READY, f.ApprovalAnswered("", False, source_id="q1", reason="no"), ASK)
    assert (card.state, card.denied) == (S.OUTPUT_DENIED, "no")


def test_rule_15_a_held_answer_is_forgotten_at_the_end_of_the_run() -> None:
    board = play(READY, f.ApprovalAnswered("", True, source_id="q1"), f.RunEnded(outcome="interrupt"), ASK)
    assert board.status == "waiting"


def test_rule_15_a_held_answer_never_settles_our_approval() -> None:
    assert play(f.ApprovalAnswered("c", True), READY, OURS).status == "waiting"


def test_facts_that_start_nothing_make_no_card() -> None:
    board = play(
        f.PolicyDecided("x", "ask"), f.AnomalyRecorded("x", "ungoverned"), f.ApprovalChanged("x", "claimed"), READY
    )
    assert [card.call_id for card in board.cards.values()] == ["c"]


# ---------------------------------------------------------------- 17 to 20: ends


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
    claimed = card_after(*approved, f.ApprovalChanged("c", "claimed", id="a1"), f.RunEnded())
    assert claimed.approval and claimed.approval.state == "unknown"


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
    stopped = card_after(READY, half, f.RunEnded(outcome="aborted"))
    assert (stopped.soft, stopped.output) == (True, "half")


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
