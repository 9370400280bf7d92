"""Interrupts of AG-UI that ask for a value: as facts, and as answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ag_ui_interrupts import JSON, decode
from toolcards.adapters import ADAPTERS, ApprovalAnswer
from toolcards.adapters.ag_ui import input_requests
from toolcards.core.calls import elicitation
from toolcards.core.calls import facts as f

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


KEYWORDS = st.dictionaries(
    st.sampled_from(["type", "properties", "required", "enum", "items", "$ref", "$defs", "anyOf", "title", "default"]),
    st.sampled_from(["object", "string", "array", "integer", "boolean"]) | JSON,
    max_size=5,
)


def answer(request: f.ApprovalRequested, answers: Any, approved: bool = True) -> Any:
    value = {**request.input, "answers": answers}
    return ADAPTERS["ag-ui"].encode(
        ApprovalAnswer(request.call_id, request.source_id, approved, "", value, request.reply_to)
    )


def test_a_request_for_input_is_a_form() -> None:
    (request,) = decode(reason="input_required", message="Where to?", responseSchema=SCHEMA)
    assert (request.call_id, request.source_id, request.tool) == ("r1:i1", "i1", elicitation.TOOL)
    assert request.input == {"message": "Where to?", "requestedSchema": SCHEMA}
    expected = {"interruptId": "i1", "status": "resolved", "payload": {"city": "Rome"}}
    assert answer(request, {"city": "Rome"}) == expected


@pytest.mark.parametrize(
    ("schema", "value"),
    [(None, "Ada"), ({"type": "boolean"}, False), ({"enum": ["a", "b"]}, "b"), ({"type": "integer"}, 0)],
)
def test_a_single_value_is_the_payload_itself(schema: Any, value: Any) -> None:
    (request,) = decode(reason="input_required", **({} if schema is None else {"responseSchema": schema}))
    elicitation.check_answers(request.input, {"answer": value})
    assert answer(request, {"answer": value})["payload"] == value


def test_a_denial_or_an_expiry_gives_no_value() -> None:
    (request,) = decode(reason="input_required", responseSchema=SCHEMA)
    assert answer(request, {"city": "x"}, approved=False) == {"interruptId": "i1", "status": "cancelled"}


@pytest.mark.parametrize(
    "interrupt",
    [
        {"reason": "tool_call", "toolCallId": "c1", "responseSchema": SCHEMA},
        {"reason": "confirmation", "toolCallId": "c1"},
    ],
)
def test_an_interrupt_about_a_call_stays_an_approval(interrupt: Any) -> None:
    (request,) = decode(**interrupt)
    assert (request.call_id, request.tool, request.reply_to["style"]) == ("c1", "", "approval")


@pytest.mark.parametrize(
    "interrupt",
    [
        {"reason": "langgraph:interrupt", "message": "Hm?"},
        {"reason": "input_required", "responseSchema": {"type": "object", "properties": {"x": {"type": "object"}}}},
        {"reason": "input_required", "responseSchema": True},
        {"reason": "input_required", "responseSchema": {"oneOf": [{"type": "object"}]}},
    ],
)
def test_what_cannot_be_shown_as_a_form_is_left_to_the_client(interrupt: Any) -> None:
    assert decode(**interrupt) == []


@pytest.mark.slow
@given(JSON | KEYWORDS)
def test_every_schema_gives_a_form_that_can_be_shown_or_none(schema: Any) -> None:
    for request in decode(reason="input_required", responseSchema=schema):
        assert elicitation.read_fields(request.input) is not None


def test_only_questions_for_values_are_forms() -> None:
    (request,) = decode(reason="input_required")
    assert input_requests.is_form(request.reply_to) and not input_requests.is_form({"style": "approval"})
    assert not input_requests.is_form(None)
