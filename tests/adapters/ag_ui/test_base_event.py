"""What all events of AG-UI have in common."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.tables import loop_over
from toolcards.adapters.ag_ui.base_event import AgUiEvent, to_text


@loop_over(("subagent", "lane"), [("s", "s"), ("", ""), (None, "")])
def test_the_lane_is_the_sub_agent(subagent: str | None, lane: str) -> None:
    assert AgUiEvent.model_validate({"subagentRunId": subagent}).lane == lane
    assert AgUiEvent.model_validate({}).lane == ""


EXTRAS = [
    ({"tanstack": {"state": "x"}}, {"state": "x"}), ({"tanstack": []}, {}), ({"tanstack": None}, {}), ({"a": 1}, {}),
    ({}, {}), (None, {}),
]  # fmt: skip


@loop_over(("metadata", "extras"), EXTRAS)
def test_the_extras_of_tanstack_are_an_object(metadata: Any, extras: dict[str, Any]) -> None:
    assert AgUiEvent.model_validate({"metadata": metadata}).tanstack == extras


@loop_over("timestamp", [0, 17, 1.5, None])
def test_the_senders_time_is_a_number(timestamp: float | None) -> None:
    assert AgUiEvent.model_validate({"timestamp": timestamp, "more": 1}).timestamp == timestamp


@loop_over(
    "fields",
    [{"timestamp": "17"}, {"timestamp": True}, {"metadata": []}, {"subagentRunId": 5}, {"metadata": "tanstack"}],
)
def test_a_field_of_another_type_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgUiEvent.model_validate(fields)


@loop_over(("value", "text"), [("x", "x"), ("", ""), (None, ""), (5, ""), (["x"], ""), ({"a": 1}, "")])
def test_what_is_no_text_counts_as_an_empty_one(value: Any, text: str) -> None:
    assert to_text(value) == text
