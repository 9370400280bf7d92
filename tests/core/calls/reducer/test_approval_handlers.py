"""Questions and answers, rules 10 to 15: the first decision wins, and an agent never answers the gate's question."""

from __future__ import annotations

import pytest

from tests.support.call_facts import ASK, OK, OURS, READY, codes
from tests.support.fact_samples import ALICE, card_after, play
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import ToolCallState

S = ToolCallState


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


@pytest.mark.parametrize("former", [1, 8])
@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("answers", [[], [False]])
def test_rule_11_an_answer_to_a_replaced_request_changes_nothing_and_is_marked(
    answers: list[bool], approved: bool, former: int
) -> None:
    requests = [f.ApprovalRequested("c", source_id=f"q{number}") for number in range(former + 1)]
    own_answers = [f.ApprovalAnswered("", each, source_id=f"q{former}") for each in answers]
    before = card_after(READY, *requests, *own_answers)
    after = card_after(READY, *requests, *own_answers, f.ApprovalAnswered("", approved, source_id="q0"))
    assert (after.state, after.approval) == (before.state, before.approval)
    assert codes(after) == ["protocol-violation", "late-response"]


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


def test_rule_15_an_answer_before_its_question_is_held_for_it() -> None:
    card = card_after(READY, f.ApprovalAnswered("", False, source_id="q1", reason="no"), ASK)
    assert (card.state, card.denied) == (S.OUTPUT_DENIED, "no")


def test_rule_15_a_held_answer_is_forgotten_at_the_end_of_the_run() -> None:
    board = play(READY, f.ApprovalAnswered("", True, source_id="q1"), f.RunEnded(outcome="interrupt"), ASK)
    assert board.status == "waiting"


def test_rule_15_a_held_answer_never_settles_our_approval() -> None:
    assert play(f.ApprovalAnswered("c", True), READY, OURS).status == "waiting"
