"""Calls that the server continues: their rounds are counted, and their answers are shown."""

from __future__ import annotations

import pytest

from tests.support.tables import loop_over
from toolcards.mcp import continuations
from toolcards.mcp.continuations import Continuations, describe_answers, is_continuation

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
