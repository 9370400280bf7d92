"""Interrupts of AG-UI that ask for a value: as facts, and as answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcards.adapters import ADAPTERS, ApprovalAnswer
from toolcards.adapters.ag_ui import input_requests, resume_entries
from toolcards.core.calls import elicitation
from toolcards.core.calls import facts as f

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
KEYWORDS = st.dictionaries(
    st.sampled_from(["type", "properties", "required", "enum", "items", "$ref", "$defs", "anyOf", "title", "default"]),
    st.sampled_from(["object", "string", "array", "integer", "boolean"]) | JSON,
    max_size=5,
)


def decode(**interrupt: Any) -> list[Any]:
    outcome = {"type": "interrupt", "interrupts": [{"id": "i1", **interrupt}]}
    event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r1", "outcome": outcome}
    facts = ADAPTERS["ag-ui"].decode(json.dumps(event))
    assert isinstance(facts, list)
    return [fact for fact in facts if isinstance(fact, f.ApprovalRequested)]


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


@given(JSON | KEYWORDS)
def test_every_schema_gives_a_form_that_can_be_shown_or_none(schema: Any) -> None:
    for request in decode(reason="input_required", responseSchema=schema):
        assert elicitation.read_fields(request.input) is not None


@given(JSON, st.sampled_from([SCHEMA, {"type": "string"}]), st.booleans())
def test_the_clients_answer_is_read_as_it_was_written(payload: Any, schema: Any, is_command: bool) -> None:
    """Also one that looks like an approval, a denial or LangChain's decisions."""
    (request,) = decode(reason="input_required", responseSchema=schema)
    forms = {"i1": (request.input, request.reply_to)}
    if is_command:
        body: dict[str, Any] = {"forwardedProps": {"command": {"resume": {"i1": payload}}}}
    else:
        body = {"resume": [{"interruptId": "i1", "status": "resolved", "payload": payload}]}
    (fact,) = resume_entries.read_request(body, [], forms)
    assert isinstance(fact, f.ApprovalAnswered) and fact.approved and fact.source_id == "i1"
    is_object = isinstance(payload, dict) and schema is SCHEMA
    assert fact.input["answers"] == (payload if is_object else {"answer": payload})


@pytest.mark.parametrize("payload", [None, {"approved": True}, {"city": "x"}])
def test_a_canceled_entry_is_a_denial_by_the_host(payload: Any) -> None:
    (request,) = decode(reason="input_required", responseSchema=SCHEMA)
    entry = {"interruptId": "i1", "status": "cancelled", "payload": payload}
    (fact,) = resume_entries.read_request({"resume": [entry]}, [], {"i1": (request.input, request.reply_to)})
    assert isinstance(fact, f.ApprovalAnswered) and not fact.approved


def test_the_value_of_a_plain_command_answers_the_only_question() -> None:
    (request,) = decode(reason="input_required")
    body = {"forwardedProps": {"command": {"resume": "Ada"}}}
    (fact,) = resume_entries.read_request(body, [], {"i1": (request.input, request.reply_to)})
    assert fact.input["answers"] == {"answer": "Ada"}


def test_a_question_that_a_person_answered_takes_no_other_answer() -> None:
    body = {"resume": [{"interruptId": "i1", "status": "resolved", "payload": {"approved": False}}]}
    assert resume_entries.read_request(body, [], {"i1": None}) == []


def test_a_field_named_like_langchains_decisions_is_no_batch() -> None:
    entry = {"interruptId": "i1", "status": "resolved", "payload": {"decisions": ["a"], "type": "x"}}
    assert resume_entries.add_entries({}, [entry]) == {"resume": [entry]}


def test_several_answers_for_langgraph_are_one_command() -> None:
    entries = [
        {"interruptId": "i1", "status": "resolved", "payload": "Ada"},
        {"interruptId": "i2", "status": "cancelled"},
    ]
    body = resume_entries.add_entries({"threadId": "t"}, entries, is_langgraph=True)
    resume = {"i1": "Ada", "i2": {"__agui_cancelled__": True}}
    assert body == {"threadId": "t", "forwardedProps": {"command": {"resume": resume}}}


def test_only_questions_for_values_are_forms() -> None:
    (request,) = decode(reason="input_required")
    assert input_requests.is_form(request.reply_to) and not input_requests.is_form({"style": "approval"})
    assert not input_requests.is_form(None)
