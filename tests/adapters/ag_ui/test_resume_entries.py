"""Answers in an AG-UI request: read as the client wrote them, and merged for the agent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ag_ui_interrupts import JSON, decode
from toolcards.adapters.ag_ui import resume_entries
from toolcards.core.calls import facts as f

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


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
