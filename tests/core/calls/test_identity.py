"""The identity of a decided call: contradicting facts start a new attempt, repeated ones change nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fact_samples import play
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardApproval, CardDecision, Milestones, ToolCallState
from toolcards.core.calls.facts import Actor
from toolcards.core.calls.identity import find_permission, is_refused, is_retryable
from toolcards.core.calls.reducer import apply_fact
from toolcards.core.runs.run_state import RunState

ARGS = {"target": "production", "force": True}
TEXT = '{"force": true, "target": "production"}'
DECISION = [f.InputReady("c", "deploy", ARGS, True, source="ops"), f.PolicyDecided("c", "ask")]
QUESTION = [*DECISION, f.ApprovalRequested("c", id="a1", opener="gate", votable=True, args_sha256="0" * 64)]
APPROVAL = [*QUESTION, f.ApprovalAnswered("c", True, id="a1", by=f.Actor("human", "ann"))]
CLAIM = [*APPROVAL, f.ApprovalChanged("c", "claimed", id="a1")]
ALLOWED = [DECISION[0], f.PolicyDecided("c", "allow"), f.PermitChanged("c", "issued", "alw_1")]

REPEATS: dict[str, list[Any]] = {
    "its start": [f.InputStarted("c", "deploy")],
    "its start with another title": [f.InputStarted("c", "deploy", title="Harmless")],
    "all of its text": [f.InputStarted("c", "deploy"), f.InputDelta("c", TEXT), f.InputReady("c")],
    "pieces of its text": [f.InputDelta("c", TEXT[:9]), f.InputDelta("c", TEXT[9:20])],
    "the same input in another order": [f.InputReady("c", "deploy", dict(reversed(ARGS.items())), True)],
    "the same input as text": [f.InputReady("c", "deploy", TEXT, True)],
    "the same input without a name": [f.InputReady("c", "", ARGS, True)],
    "the same input as a repair": [f.InputRepaired("c", "deploy", ARGS, {"target": "x"}, "by magic")],
    "the same server": [f.InputReady("c", "deploy", ARGS, True, source="ops")],
    "a kind": [f.InputReady("c", "deploy", ARGS, True, kind="read")],
    "tools that the run offers": [f.RunStarted(tools=[{"name": "deploy", "input_schema": {"type": "string"}}])],
    "a question of the agent's own": [
        f.ApprovalRequested("c", source_id="theirs", input={"target": "staging"}, tool="x")
    ],
    "a step": [f.StepStarted(step=3)],
}
CONTRADICTIONS: dict[str, list[Any]] = {
    "another input": [f.InputReady("c", "deploy", {"target": "staging"}, True)],
    "another tool": [f.InputReady("c", "read_docs", ARGS, True)],
    "another server": [f.InputReady("c", "deploy", ARGS, True, source="evil")],
    "true for 1": [f.InputReady("c", "deploy", ARGS | {"force": 1}, True)],
    "a repair": [f.InputRepaired("c", "deploy", {"target": "staging"}, ARGS, "x")],
    "a repair to another tool": [f.InputRepaired("c", "read_docs", ARGS, ARGS, "x")],
    "a start of another tool": [f.InputStarted("c", "read_docs")],
    "text of another input": [f.InputDelta("c", '{"target": "st')],
    "a start and text of another input": [f.InputStarted("c", "deploy"), f.InputDelta("c", '{"target":"staging"}')],
    "half of its text as the whole": [f.InputStarted("c", "deploy"), f.InputDelta("c", TEXT[:9]), f.InputReady("c")],
    "more behind its text": [f.InputStarted("c", "deploy"), f.InputDelta("c", TEXT + ","), f.InputReady("c")],
    "another input that was invalid": [f.InputInvalid("c", "deploy", {"target": "staging"}, "x")],
    "another attempt": [f.InputReady("c", "deploy", ARGS, True, attempt=2)],
    "a chunk of another input": [f.InputChunk("c", "deploy", '{"x"')],
}


def list_shown_fields(card: Card) -> tuple[Any, ...]:
    """What a person decides on."""
    return (
        card.tool,
        card.input,
        card.has_input,
        card.agent_path,
        card.original_input,
        card.repair,
        card.rev,
        card.state,
    )


def card_of(board: RunState, ordinal: int = 1) -> Card:
    return board.cards[ordinal]


@pytest.mark.parametrize(
    "before", [QUESTION, APPROVAL, CLAIM, ALLOWED], ids=["asked", "approved", "claimed", "allowed"]
)
@pytest.mark.parametrize("facts", REPEATS.values(), ids=REPEATS.keys())
def test_news_of_the_same_input_changes_nothing(before: list[Any], facts: list[Any]) -> None:
    if before is ALLOWED and isinstance(facts[0], f.ApprovalRequested):
        pytest.skip("what a rule allowed may still be asked about where the agent runs")
    board = play(*before)
    fields_before = list_shown_fields(card_of(board))
    play(*facts, board=board)
    assert len(board.cards) == 1
    assert list_shown_fields(card_of(board)) == fields_before
    assert card_of(board).anomalies == ()


@loop_over("before", [QUESTION, APPROVAL, ALLOWED], ids=["asked", "approved", "allowed"])
@loop_over("facts", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_another_input_ends_the_question_and_is_a_new_attempt(before: list[Any], facts: list[Any]) -> None:
    board = play(*before)
    fields_before = list_shown_fields(card_of(board))[:6]
    play(*facts, board=board)
    old, new = card_of(board), card_of(board, 2)
    assert list_shown_fields(old)[:6] == fields_before
    assert (old.state, old.soft, old.cause) == ("output-error", True, "superseded")
    assert [code for code, _ in old.anomalies] == ["changed-after-decision"]
    assert not old.unclaimed
    assert old.approval is None or old.approval.state == "superseded"
    assert (new.call_id, new.attempt, new.decision, new.approval) == ("c", 2, None, None)
    assert new.gated


@pytest.mark.parametrize("facts", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_running_call_continues_during_another_attempt(facts: list[Any]) -> None:
    board = play(*CLAIM, *facts)
    assert (card_of(board).state, card_of(board).running) == ("approval-responded", True)
    assert [code for code, _ in card_of(board).anomalies] == ["changed-after-decision"]
    play(f.OutputReady("c", "done"), board=board)
    assert (card_of(board).state, card_of(board).output) == ("output-available", "done")
    assert card_of(board, 2).state != "output-available"


@pytest.mark.parametrize(
    ("value", "codes"),
    [(ARGS | {"cwd": "/"}, []), ({"target": "x", "cwd": "/"}, ["changed-after-decision"])],
)
@pytest.mark.parametrize("after", [[], [f.OutputReady("c", "done")]])
def test_what_is_reported_of_a_call_that_runs_begins_no_other(
    value: dict[str, Any], codes: list[str], after: list[Any]
) -> None:
    board = play(*CLAIM, *after, f.InputReady("c", "", value, True, report=True), f.OutputReady("c", "done"))
    assert len(board.cards) == 1
    card = card_of(board)
    assert card.input == ARGS
    assert [code for code, _ in card.anomalies if code != "duplicate-terminal"] == codes
    assert str(card.state) == "output-available"


def test_a_report_of_another_input_ends_a_question_that_waits() -> None:
    board = play(*APPROVAL, f.InputReady("c", "", ARGS | {"cwd": "/"}, True, report=True))
    assert [card.cause for card in board.cards.values()] == ["superseded", None]


def test_text_that_began_before_the_decision_continues_after_it() -> None:
    board = play(f.InputStarted("c", "deploy"), f.InputDelta("c", TEXT[:9]), *QUESTION, f.InputDelta("c", TEXT[9:]))
    assert len(board.cards) == 1
    play(f.InputReady("c"), board=board)
    assert len(board.cards) == 1
    assert card_of(board).waiting


def test_what_was_written_under_the_old_call_is_the_input_of_the_new_one() -> None:
    pieces = [f.InputDelta("c", '{"target":'), f.InputDelta("c", '"staging"}'), f.InputReady("c")]
    board = play(*QUESTION, f.InputStarted("c", "deploy"), *pieces)
    assert card_of(board, 2).input == {"target": "staging"}


def test_an_edited_call_takes_news_of_what_was_edited_and_of_what_became_of_it() -> None:
    edited = {"target": "staging"}
    approval = f.ApprovalAnswered("c", True, id="a1", by=f.Actor("human", "ann"), input=edited, has_input=True)
    for news in (ARGS, edited):
        board = play(*QUESTION, approval, f.InputReady("c", "deploy", news, True))
        assert (len(board.cards), card_of(board).input) == (1, edited)


@loop_over(
    "end",
    [
        f.OutputReady("c", 1), f.OutputFailed("c", "x"), f.OutputDenied("c"), f.OutputPartial("c", 1), f.StepReset(),
        f.RunEnded(), f.RunEnded(outcome="aborted"), f.RunEnded(outcome="truncated"), f.RunEnded(outcome="error"),
        f.InputInvalid("c", "deploy", ARGS, "x"), f.SnapshotReceived("c", "done"),
    ],
    ids=lambda fact: fact.type,
)  # fmt: skip
@loop_over("before", [ALLOWED, APPROVAL], ids=["by a rule", "by a person"])
def test_the_right_to_run_dies_with_the_call(before: list[Any], end: Any) -> None:
    board = play(*before)
    assert card_of(board).unclaimed
    play(end, board=board)
    assert not card_of(board).unclaimed
    play(f.PermitChanged("c", "claimed", "alw_1"), board=board)
    assert card_of(board).permit is None or card_of(board).permit.state == "void"  # type: ignore[union-attr]


@pytest.mark.parametrize("before", [ALLOWED, APPROVAL], ids=["by a rule", "by a person"])
def test_a_result_without_a_claim_is_ungoverned(before: list[Any]) -> None:
    board = play(*before, f.OutputReady("c", 1))
    assert [code for code, _ in card_of(board).anomalies] == ["ungoverned"]
    board = play(*before[:-1], *before[-1:], f.OutputFailed("c", "refused"))
    assert card_of(board).anomalies == ()


NOON = Milestones(started=100 * 86_400 + 43_200.0, available=100 * 86_400 + 43_200.0, finished=101 * 86_400.0)
ALLOW, DENY, ASK = (CardDecision(effect) for effect in ("allow", "deny", "ask"))
DENIED = {"state": ToolCallState.OUTPUT_DENIED, "denied_by": Actor("host", "Claude Code")}


@pytest.mark.parametrize(("fields", "word"), [
    ({}, None), ({"decision": ALLOW}, "allowed"), ({"decision": DENY}, "denied"),
    ({"decision": ASK, "approval": CardApproval(opener="gate")}, "asked"),
    ({"decision": ALLOW, "approval": CardApproval(state="denied")}, "asked"),
    ({"decision": ALLOW, "approval": CardApproval(automatic=True)}, "allowed"),
    ({"decision": ASK, "approval": CardApproval(opener="gate", twin="apr_1")}, "allowed"),
    ({"decision": ALLOW, **DENIED}, "refused"), ({"decision": ALLOW, "removed": True}, None),
])  # fmt: skip
def test_a_decided_call_has_one_word(fields: dict[str, object], word: str | None) -> None:
    permission = find_permission(Card("c", times=NOON, **fields))  # type: ignore[arg-type]
    assert permission == ((100, word) if word else None)


ANN, HOST = f.Actor("human", "ann"), f.Actor("host", "Claude Code")
READY = f.InputReady("c", "Bash", {"command": "ls"}, True)
REFUSAL = f.OutputDenied("c", "too risky", HOST)


def play_for_permissions(*facts: Any) -> Card:
    card = Card("c")
    for fact in facts:
        card = apply_fact(card, fact)
    return card


@pytest.mark.parametrize(("facts", "expected"), [
    ([READY, REFUSAL], (True, True)),
    ([READY, f.PolicyDecided("c", "allow"), REFUSAL], (True, True)),
    ([READY, f.PolicyDecided("c", "deny"), REFUSAL], (True, False)),
    ([READY, f.OutputDenied("c", "no", ANN)], (False, False)),
    ([READY, f.OutputDenied("c", "no", f.Actor("host"))], (False, False)),
    ([READY, f.OutputReady("c", 1)], (False, False)),
    ([REFUSAL], (True, False)),
    ([READY, REFUSAL, f.RetryChanged("c", "granted", ANN)], (True, False)),
    ([READY, REFUSAL, f.CallRemoved("c")], (True, False)),
])  # fmt: skip
def test_a_refusal_can_be_answered_while_nothing_else_denied_the_call(facts: Any, expected: tuple[bool, bool]) -> None:
    card = play_for_permissions(*facts)
    assert (is_refused(card), is_retryable(card)) == expected


@pytest.mark.parametrize(("states", "expected"), [
    (["granted"], "granted"), (["granted", "used"], "used"), (["granted", "dismissed"], "granted"),
    (["dismissed", "granted"], "dismissed"), (["used"], ""), (["dismissed", "used"], "dismissed"),
    (["granted", "used", "granted", "used"], "used"),
])  # fmt: skip
def test_a_retry_is_given_once_and_used_once(states: Any, expected: str) -> None:
    card = play_for_permissions(READY, REFUSAL, *(f.RetryChanged("c", state, ANN) for state in states))
    assert card.retry == expected and card.retry_by == (ANN if expected else None)
