"""Routing: a host that repeats a decision of our gate adds nothing to the log."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.runs.run_state import RunState


def route_facts(*facts: Any) -> list[Card]:
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
    (card,) = route_facts(READY, *DENIED, *ECHO, f.OutputDenied("c"))
    assert (card.state, card.anomalies, card.denied) == ("output-denied", (), "Not here.")


def test_an_automatic_question_does_not_replace_a_persons_answer() -> None:
    fact = f.ApprovalRequested("c", "", id="apr_1", opener="gate")
    approval = f.ApprovalAnswered("c", True, id="apr_1", by=f.Actor("human", "ann"))
    echo = (f.ApprovalRequested("c", "aitxt-1", automatic=True), f.ApprovalAnswered("", True, "aitxt-1"))
    claim = f.ApprovalChanged("c", "claimed", id="apr_1")
    (card,) = route_facts(READY, f.PolicyDecided("c", "ask"), fact, approval, *echo, claim, f.OutputReady("c", 1))
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
def test_the_report_of_a_denial_to_the_model_is_not_an_anomaly(echo: Any) -> None:
    (card,) = route_facts(READY, *DENIED, echo)
    assert (card.state, card.anomalies) == ("output-denied", ())


@pytest.mark.parametrize(
    ("result", "odd"),
    [({"error": "A person declined."}, []), ({"deleted": "/a"}, ["ran-without-approval"])],
)
def test_a_denial_without_a_reason_is_also_reported_as_a_result(result: Any, odd: list[str]) -> None:
    fact = f.ApprovalRequested("c", "", id="apr_1", opener="gate")
    denial = f.ApprovalAnswered("c", False, id="apr_1", by=f.Actor("human", "ann"))
    (card,) = route_facts(READY, f.PolicyDecided("c", "ask"), fact, denial, f.OutputReady("c", result))
    assert (card.state, [code for code, _ in card.anomalies]) == ("output-denied", odd)


@pytest.mark.parametrize(
    ("real", "code"),
    [
        (f.OutputFailed("c", "EACCES"), "conflicting-terminal"),
        (f.OutputReady("c", {"deleted": "/a"}), "ran-without-approval"),
    ],
)
def test_a_result_of_a_denied_call_is_one(real: Any, code: str) -> None:
    (card,) = route_facts(READY, *DENIED, real)
    assert (card.state, [each for each, _ in card.anomalies]) == ("output-denied", [code])


def test_a_call_whose_approval_came_before_its_stream_is_one_call() -> None:
    stream = (f.StepStarted(), f.InputStarted("c", "shell", per_step=True), f.InputDelta("c", '{"command":"x"}'))
    cards = route_facts(READY, *DENIED, *stream, f.OutputDenied("c"))
    assert [card.state for card in cards] == ["output-denied"]


# ---------------------------------------------------------------- one call id in several turns (AG-UI, TanStack)


def turn(message: str, city: str, *, is_lost: bool = False) -> list[Any]:
    text = f'{{"city":"{city}"}}'
    start = f.InputStarted("call_0", "weather", reusable=True, message_id=message)
    result = [] if is_lost else [f.OutputReady("call_0", city, message_id=f"result-{message}" if message else "")]
    return [start, f.InputDelta("call_0", text), f.InputReady("call_0"), *result]


def cities(cards: list[Card]) -> list[tuple[Any, Any]]:
    assert [card.anomalies for card in cards] == [()] * len(cards)
    return [((card.input or {}).get("city"), card.output) for card in cards]


@pytest.mark.parametrize("messages", [("m1", "m2", "m3"), ("", "", "")])
def test_an_id_that_comes_again_after_its_result_is_another_call(messages: tuple[str, ...]) -> None:
    facts = [fact for message, city in zip(messages, "ABB", strict=True) for fact in turn(message, city)]
    assert cities(route_facts(f.RunStarted(scope="r"), *facts)) == [("A", "A"), ("B", "B"), ("B", "B")]


@pytest.mark.parametrize("messages", [("m1", "m2"), ("", "")])
def test_a_stream_that_is_read_again_repeats_no_call(messages: tuple[str, ...]) -> None:
    first, second = turn(messages[0], "A"), turn(messages[1], "B")
    stream = [f.RunStarted(scope="r"), *first, *second] if messages[0] else [f.RunStarted(scope="r"), *first]
    assert len(cities(route_facts(*stream, *stream))) == (2 if messages[0] else 1)


def test_an_id_of_a_later_message_is_another_call_after_an_end_without_result() -> None:
    facts = [f.RunStarted(scope="r"), *turn("m1", "A", is_lost=True), f.RunEnded(outcome="aborted", scope="r")]
    cards = route_facts(*facts, f.RunStarted(scope="s"), *turn("m2", "B"))
    assert cities(cards) == [("A", None), ("B", "B")] and cards[0].cause == "aborted"


def test_the_stream_of_a_call_that_was_denied_before_it_came_is_no_other_call() -> None:
    """The gate answers faster than the mirrored stream arrives."""
    ready = f.InputReady("call_0", "weather", {"city": "A"}, True)
    denied = (f.PolicyDecided("call_0", "deny", reason="No."), f.OutputDenied("call_0", "No.", by=f.Actor("rule")))
    cards = route_facts(ready, *denied, *turn("m1", "A", is_lost=True), *turn("m2", "B"))
    assert [(card.state, card.input) for card in cards] == [
        ("output-denied", {"city": "A"}), ("output-available", {"city": "B"}),
    ]  # fmt: skip


def test_a_continuation_announces_the_same_call_again() -> None:
    """TanStack repeats a call after its approval, perhaps in another message."""
    question, approval = f.ApprovalRequested("call_0", "a"), f.ApprovalAnswered("", True, "a")
    (card,) = route_facts(f.RunStarted(scope="r"), *turn("m1", "A", is_lost=True), question, approval, *turn("m2", "A"))
    assert (card.state, card.output) == ("output-available", "A")


# ---------------------------------------------------------------- run ids of each turn (TanStack)


@pytest.mark.parametrize("scope", ["r", "r2", ""])
def test_the_end_of_an_unknown_scope_may_end_the_current_one(scope: str) -> None:
    board = RunState()
    for fact in (f.RunStarted(scope="r"), *turn("m1", "A", is_lost=True), f.RunEnded(scope=scope, or_current=True)):
        for ordinal, part in board.route(fact):
            board.record(ordinal, part)
    assert (board.status, board.context.scopes) == ("finished", [])


def test_the_end_of_an_open_scope_ends_that_one() -> None:
    board = RunState()
    facts = (f.RunStarted(scope="r"), f.RunStarted(scope="s"), f.RunEnded(scope="r", or_current=True))
    for ordinal, part in (routed for fact in facts for routed in board.route(fact)):
        board.record(ordinal, part)
    assert (board.status, board.context.scopes) == ("running", ["s"])


@pytest.mark.parametrize(("error", "status"), [("", "finished"), ("the model is overloaded", "error")])
def test_a_run_whose_model_failed_runs_no_tool(error: str, status: str) -> None:
    board = RunState()
    reported = [f.ErrorReported(message=error)] if error else []
    for fact in (READY, *reported, f.RunEnded(outcome="not-executed", reason="The model stopped: error")):
        for ordinal, part in board.route(fact):
            board.record(ordinal, part)
    assert (board.cards[1].cause, board.status) == ("not-executed", status)
