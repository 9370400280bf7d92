"""Calls that the server continues: their rounds are counted, and their answers are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.mcp import continuations
from toolcards.mcp.continuations import MAX_ROUNDS, Continuations, describe_answers, is_continuation

CALL = {"name": "read", "arguments": {"path": "a"}}


def test_the_rounds_of_a_call_are_counted_by_tool_arguments_and_state() -> None:
    rounds = Continuations()
    rounds.keep(CALL, {"requestState": "s1"}, 3)
    assert rounds.count(CALL) == 0  # a new call
    assert rounds.count({**CALL, "name": "write", "requestState": "s1"}) == 1
    assert rounds.count({**CALL, "requestState": "s1"}) == 4
    assert rounds.count({**CALL, "requestState": "s1"}) == 1  # used


def test_only_some_open_calls_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuations, "MAX_OPEN", 2)
    rounds = Continuations()
    for state in ("s1", "s2", "s3"):
        rounds.keep(CALL, {"requestState": state}, 1)
    assert [rounds.count({**CALL, "requestState": state}) for state in ("s1", "s2", "s3")] == [1, 2, 2]


@loop_over(("params", "expected"), [
    ({}, False), ({"requestState": ""}, True), ({"inputResponses": None}, True), ({"inputResponses": {"f": 1}}, True),
])  # fmt: skip
def test_answers_or_a_state_continue_a_call(params: dict[str, object], expected: bool) -> None:
    assert is_continuation(params) is expected


def test_the_note_shows_the_answers_and_how_many_there_are() -> None:
    note = describe_answers({"inputResponses": {"f": {"action": "accept"}}}, 1)
    assert note == 'Continues the call, request 2. Answers: {"f": {"action": "accept"}}'
    assert "x" * 9_000 in describe_answers({"inputResponses": {"f": "x" * 9_000}}, 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["s", "t"]), st.sampled_from(["s", "t"])), max_size=200))
def test_equal_calls_that_a_server_continues_side_by_side_end_as_well(steps: list[tuple[int, str, str]]) -> None:
    """Whatever states a server gives, no call takes rounds from nothing: all together have at most theirs."""
    rounds_of_calls, open_calls, continued_count = Continuations(), dict.fromkeys(range(4), ""), 0
    for call, _, first_state in steps:
        if not open_calls[call]:
            open_calls[call] = first_state
            rounds_of_calls.keep(CALL, {"requestState": first_state}, 0)
    for call, state, _ in steps:
        if open_calls[call]:
            rounds = rounds_of_calls.count({**CALL, "requestState": open_calls[call]})
            continued_count += rounds <= MAX_ROUNDS
            open_calls[call] = state if rounds <= MAX_ROUNDS else ""
            if open_calls[call]:
                rounds_of_calls.keep(CALL, {"requestState": state}, rounds)
    assert continued_count <= 4 * MAX_ROUNDS


def test_two_equal_calls_do_not_begin_again_by_each_other() -> None:
    rounds_of_calls, answers = Continuations(), []
    rounds_of_calls.keep(CALL, {"requestState": "s"}, 5)
    rounds_of_calls.keep(CALL, {"requestState": "s"}, 1)
    for _ in range(3):
        answers.append(rounds_of_calls.count({**CALL, "requestState": "s"}))
    assert answers == [6, 2, 1]
