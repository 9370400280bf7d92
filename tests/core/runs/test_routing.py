"""Routing: a host that repeats a decision of our gate adds nothing to the log."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.runs.run_state import RunState


def told(*facts: Any) -> list[Card]:
    board = RunState()
    for fact in facts:
        for ordinal, part in board.route(fact):
            board.record(ordinal, part)
    return list(board.cards.values())


READY = f.InputReady("c", "shell", {"command": "x"}, True)
DENIED = (
    f.PolicyDecided("c", "deny", "rule_denied", "Not here."),
    f.OutputDenied("c", reason="Not here.", by=f.Actor("rule")),
)
ECHO = (
    f.ApprovalRequested("c", "aitxt-1", automatic=True),
    f.ApprovalAnswered("", False, "aitxt-1", reason="Not here."),
)


def test_an_automatic_question_after_our_denial_is_no_oddity() -> None:
    (card,) = told(READY, *DENIED, *ECHO, f.OutputDenied("c"))
    assert (card.state, card.anomalies, card.denied) == ("output-denied", (), "Not here.")


def test_an_automatic_question_does_not_replace_a_persons_answer() -> None:
    fact = f.ApprovalRequested("c", "", id="apr_1", opener="gate")
    answered = f.ApprovalAnswered("c", True, id="apr_1", by=f.Actor("human", "ann"))
    echo = (f.ApprovalRequested("c", "aitxt-1", automatic=True), f.ApprovalAnswered("", True, "aitxt-1"))
    claimed = f.ApprovalChanged("c", "claimed", id="apr_1")
    (card,) = told(READY, f.PolicyDecided("c", "ask"), fact, answered, *echo, claimed, f.OutputReady("c", 1))
    assert card.approval is not None and card.approval.by == f.Actor("human", "ann")
    assert (card.state, card.anomalies) == ("output-available", ())


@pytest.mark.parametrize(
    "echo",
    [
        f.OutputFailed("c", "Denied: Not here. Try something else."),
        f.OutputFailed("c", "An error occurred."),
        f.OutputReady("c", {"error": "Not here. Try something else."}),
    ],
)
def test_how_the_model_is_told_of_a_denial_is_no_oddity(echo: Any) -> None:
    (card,) = told(READY, *DENIED, echo)
    assert (card.state, card.anomalies) == ("output-denied", ())


@pytest.mark.parametrize(
    ("result", "odd"),
    [({"error": "A person declined."}, []), ({"deleted": "/a"}, ["conflicting-terminal"])],
)
def test_a_persons_no_without_a_reason_is_told_in_a_result_too(result: Any, odd: list[str]) -> None:
    fact = f.ApprovalRequested("c", "", id="apr_1", opener="gate")
    answered = f.ApprovalAnswered("c", False, id="apr_1", by=f.Actor("human", "ann"))
    (card,) = told(READY, f.PolicyDecided("c", "ask"), fact, answered, f.OutputReady("c", result))
    assert (card.state, [code for code, _ in card.anomalies]) == ("output-denied", odd)


@pytest.mark.parametrize("real", [f.OutputFailed("c", "EACCES"), f.OutputReady("c", {"deleted": "/a"})])
def test_a_result_of_a_denied_call_is_one(real: Any) -> None:
    (card,) = told(READY, *DENIED, real)
    assert (card.state, [code for code, _ in card.anomalies]) == ("output-denied", ["conflicting-terminal"])


def test_a_call_that_was_asked_about_before_its_stream_told_of_it_is_one_call() -> None:
    stream = (f.StepStarted(), f.InputStarted("c", "shell", per_step=True), f.InputDelta("c", '{"command":"x"}'))
    cards = told(READY, *DENIED, *stream, f.OutputDenied("c"))
    assert [card.state for card in cards] == ["output-denied"]
