"""A call's log in sentences: each kind of event, series of pieces, and long logs."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import pytest

from dashboard.cards.trace import event_log
from dashboard.cards.trace.event_log import (
    APPROVAL_WORDS,
    CLOSE_WORDS,
    MAX_QUOTE,
    OUTCOME_WORDS,
    EventLine,
    list_event_lines,
)
from tests.support.gate_commands import RecordFacts
from tests.support.tables import loop_over
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.core.calls.facts import dump
from toolcards.core.calls.facts.outcome_facts import CloseReason
from toolcards.gate.writer import group_commit
from toolcards.models import Event, Run, Source, ToolCall

SECRET = "ghp_" + "a1B2" * 9
ANN = f.Actor("human", "ann")


def find_call() -> ToolCall:
    return ToolCall.objects.get(call_id="c")


def list_texts() -> list[str]:
    return [line.text for line in list_event_lines(find_call())]


def describe(fact: Any) -> EventLine:
    """Return the line of an event that was not recorded."""
    return event_log._build_line(Event(seq=1, at=5.0, ordinal=1, fact=dump(fact)))


SENTENCES: list[tuple[Any, str, str]] = [
    (f.InputStarted("c", "Bash"), "The agent started to write the input", ""),
    (f.InputReady("c", "Bash", {}, True), "Input received", ""),
    (f.InputInvalid("c", "Bash", message="no path"), "The input could not be used; the tool did not run", "no path"),
    (f.InputRepaired("c", method="schema"), "The input was repaired (schema)", ""),
    (f.InputRepaired("c"), "The input was repaired (method not stated)", ""),
    (f.PolicyDecided("c", "ask", reason="why", rule="r", version=3), "Policy: asked by rule r (policy v3)", "why"),
    (f.PolicyDecided("c", "deny"), "Policy: denied", ""),
    (f.ApprovalRequested("c", opener="gate", reason="why"), "Toolcards asked for approval", "why"),
    (f.ApprovalRequested("c"), "The agent asked for approval", ""),
    (f.ApprovalAnswered("c", True, by=ANN, has_input=True), "Approved by ann, with an edited input", ""),
    (f.ApprovalAnswered("c", False, by=ANN, reason="no"), "Denied by ann", "no"),
    (f.VoteCounted("c", 1, by=ANN), "ann voted; 1 approval so far", ""),
    (f.VoteCounted("c", 2, by=ANN), "ann voted; 2 approvals so far", ""),
    (f.ApprovalFetched("c"), "The agent fetched the approval", ""),
    (f.ApprovalEscalated("c", to=["bea", "group:lead"]), "No answer, escalated to bea, group:lead", ""),
    (f.CallReviewed("c", f.Actor("reviewer", "guard"), "allow", "It reads.", "High risk."),
     "The reviewer guard answered allow", "It reads. High risk."),
    (f.CallReviewed("c", f.Actor("reviewer", "guard"), note="It took too long."),
     "The reviewer guard did not answer", "It took too long."),
    (f.AgentPresenceChanged("c", away=True), "The agent disconnected", ""),
    (f.AgentPresenceChanged("c", away=False), "The agent is back", ""),
    (f.ApprovalChanged("c", "succeeded"), "The approved call succeeded", ""),
    (f.ApprovalInputChanged("c", "ab"), "The approval now covers the changed input", ""),
    (f.PermitChanged("c", "issued"), "Permit to run issued", ""),
    (f.PermitChanged("c", "odd"), "The permit is now odd", ""),
    (f.OutputPartial("c", "so far"), "Partial output received", "so far"),
    (f.OutputReady("c", "\x1b[31mred\x1b[0m"), "Result received", "red"),
    (f.OutputFailed("c", "it \x1b[1mbroke", "timeout"), "Failed (timeout)", "it broke"),
    (f.OutputFailed("c", "it broke"), "Failed", "it broke"),
    (f.OutputDenied("c", reason="no", by=ANN), "Denied by ann", "no"),
    (f.OutcomeReported("m", "success"), "A later message reported that it succeeded", ""),
    (f.CallClosed("c", "truncated", reason="gone"), "No result was received", "gone"),
    (f.CallClosed("c", "expired"), "No one answered in time", ""),
    (f.ManualOutcomeRecorded("c", "failed", note="looked", by=ANN), "ann recorded that it failed", "looked"),
    (f.RetryChanged("c", "granted", ANN), "ann let it try again, once", ""),
    (f.RetryChanged("c", "dismissed", ANN), "ann dismissed the refusal", ""),
    (f.CallRemoved("c"), "Its step was reset; the card was removed", ""),
    (f.AnomalyRecorded("c", "ungoverned"), "Ran outside the gate, without a decision", ""),
    (f.AnomalyRecorded("c", "no-such-code"), "no such code", ""),
]  # fmt: skip


@loop_over(("fact", "text", "quote"), SENTENCES)
def test_an_event_is_a_sentence_with_its_words_quoted(fact: Any, text: str, quote: str) -> None:
    line = describe(fact)
    assert (line.text, line.quote, line.at, line.seq) == (text, quote, 5.0, 1)


def test_a_secret_that_only_its_name_gives_away_is_masked() -> None:
    assert "hunter2" not in describe(f.OutputReady("c", {"password": "hunter2"})).quote


def test_every_end_and_outcome_has_words() -> None:
    assert CLOSE_WORDS.keys() == set(typing.get_args(CloseReason))
    outcomes = typing.get_type_hints(f.OutcomeReported)["outcome"]
    assert OUTCOME_WORDS.keys() == set(typing.get_args(outcomes)) and "approved" in APPROVAL_WORDS


def test_a_quote_is_short_and_masks_secrets() -> None:
    assert describe(f.OutputReady("c", "x " * MAX_QUOTE)).quote == ("x " * MAX_QUOTE)[:MAX_QUOTE]
    for fact in (
        f.OutputReady("c", {"token": SECRET}),
        f.OutputFailed("c", SECRET),
        f.OutputDenied("c", reason=SECRET),
    ):
        quote = describe(fact).quote
        assert quote and SECRET not in quote and "secret" in quote


@pytest.mark.django_db
def test_pieces_in_a_row_are_one_line_at_the_time_of_the_first(a_run: Callable[..., Run]) -> None:
    pieces = [f.InputDelta("c", text) for text in ('{"a"', ": ", "1}")]
    a_run(
        "r", f.InputStarted("c", "Bash"), *pieces, f.InputDelta("other", "{}"), f.InputReady("c"), f.OutputReady("c", 1)
    )
    lines = list_event_lines(find_call())
    assert [line.text for line in lines] == [
        "The agent started to write the input", "Wrote input in 3 pieces", "Input received", "Result received",
    ]  # fmt: skip
    assert lines[1].count == 3 and lines[1].seq == lines[0].seq + 1 and lines[1].st == "stream"
    assert [line.seq for line in lines] == sorted(line.seq for line in lines)


@pytest.mark.django_db
def test_pieces_that_changed_nothing_are_a_line_of_their_own(a_run: Callable[..., Run]) -> None:
    a_run("r", f.InputStarted("c", "Bash"), f.InputDelta("c", "{}"), f.InputReady("c"), f.InputDelta("c", "late"))
    lines = [(line.text, line.applied) for line in list_event_lines(find_call()) if line.st == "stream" and line.count]
    assert lines[-1] == ("Wrote input in 1 piece", False) and ("Wrote input in 1 piece", True) in lines


@pytest.mark.django_db
def test_a_call_has_no_lines_of_others(a_call: Callable[..., ToolCall]) -> None:
    call = a_call()
    call.ordinal += 1
    assert list_event_lines(call) == []


@pytest.mark.django_db
def test_the_result_is_listed_after_any_number_of_pieces(
    a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(event_log, "MAX_EVENTS", 2)
    pieces = [f.InputDelta("c", "x")] * 60
    a_run("r", f.InputStarted("c", "Bash"), *pieces, f.InputReady("c", "", {}, True))
    assert list_texts() == ["The agent started to write the input", "Wrote input in 60 pieces", "Input received"]
    call, decrypted_rows = find_call(), []
    fact = Event.readable_fact.fget
    monkeypatch.setattr(Event, "readable_fact", property(lambda event: decrypted_rows.append(event.seq) or fact(event)))
    with django_assert_num_queries(2):
        list_event_lines(call)
    assert len(decrypted_rows) == 2


@pytest.mark.django_db
def test_the_latest_events_are_listed_with_the_number_of_earlier_ones(
    a_run: Callable[..., Run], source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MAX_EVENTS", 3)
    a_run("r", f.InputStarted("c", "Bash"), f.InputDelta("c", "{}"), f.InputReady("c"), f.OutputPartial("c", "1"))
    assert "not shown" not in list_texts()[0] and len(list_texts()) == 4
    group_commit.execute(RecordFacts(source, "r", [f.OutputPartial("c", "2"), f.OutputReady("c", "3")]))
    lines = list_event_lines(find_call())
    assert [line.text for line in lines] == [
        "2 earlier events not shown", "Partial output received", "Partial output received", "Result received",
    ]  # fmt: skip
    assert [line.quote for line in lines[1:]] == ["1", "2", "3"] and gate.rebuild(check=True) == []
