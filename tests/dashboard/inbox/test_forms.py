"""Answering an agent's questions by the form in the inbox."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from toolcards.models import Approval, AuditRow, ToolCall

pytestmark = pytest.mark.django_db
COLOR = {"question": "Which <color>?", "header": "Color", "options": [{"label": "Red"}, {"label": "Blue, dark"}]}
SIZES = {"question": "Which sizes?", "multiSelect": True, "options": [{"label": "S"}, {"label": "M"}, {"label": "L"}]}
INPUT = {"questions": [COLOR, SIZES, {"question": "Name?"}]}
ANSWERS = {"answer-0": "1", "answer-1": ["0", "2"], "answer-2-text": " Ada "}


@pytest.fixture
def call(a_call: Any) -> ToolCall:
    result: ToolCall = a_call("approval-requested", tool="AskUserQuestion", input=INPUT)
    return result


def send(browser: Client, call: ToolCall, decision: str = "answer", **fields: Any) -> Any:
    ask = call.as_card().approval
    assert ask is not None
    fields |= {"decision": decision, "rev": call.as_card().rev, "args_sha256": ask.args_sha256}
    return browser.post(f"/approvals/{Approval.objects.get(call=call).pk}/vote", fields, HTTP_HX_REQUEST="true")


def test_the_form_shows_each_question_with_its_options_and_a_field_for_another_answer(
    ann: Client, call: ToolCall
) -> None:
    page = " ".join(ann.get("/approvals/").content.decode().split())
    assert "Which &lt;color&gt;?" in page and page.count('type="radio" name="answer-0"') == 2
    assert page.count('type="checkbox" name="answer-1"') == 3 and 'name="answer-2-text"' in page
    assert 'value="answer"' in page and 'name="decision" value="approve"' not in page


def test_the_answers_are_what_the_agent_gets_and_the_vote_is_in_the_audit_trail(ann: Client, call: ToolCall) -> None:
    response = send(ann, call, **ANSWERS)
    call.refresh_from_db()
    assert (response.status_code, call.state) == (200, "approval-responded"), response.content
    answers = {"Which <color>?": "Blue, dark", "Which sizes?": "S, L", "Name?": "Ada"}
    assert call.as_card().input == INPUT | {"answers": answers}
    assert AuditRow.objects.filter(act="vote", actor="ann").count() == 1


def test_a_free_text_replaces_a_single_option_and_is_added_to_several(ann: Client, call: ToolCall) -> None:
    send(ann, call, **ANSWERS | {"answer-0-text": "Green", "answer-1-text": "XL"})
    call.refresh_from_db()
    answers = call.as_card().input["answers"]
    assert (answers["Which <color>?"], answers["Which sizes?"]) == ("Green", "S, L, XL")


@pytest.mark.parametrize(
    "change", [{"answer-0": ""}, {"answer-0": "7"}, {"answer-1": []}, {"answer-2-text": " "}, {"answer-0": ["0", "1"]}]
)
def test_a_question_without_an_answer_keeps_the_call_waiting(
    ann: Client, call: ToolCall, change: dict[str, Any]
) -> None:
    response = send(ann, call, **ANSWERS | change)
    call.refresh_from_db()
    assert (response.status_code, call.state) == (422, "approval-requested")
    assert "Choose an answer to" in response.content.decode()


def test_answers_to_a_call_that_asks_nothing_are_refused(ann: Client, a_call: Any) -> None:
    call = a_call("approval-requested")
    assert send(ann, call, **ANSWERS).status_code == 422


def test_the_first_answer_counts(ann: Client, call: ToolCall) -> None:
    for change in ({}, {"answer-0": "0"}):
        send(ann, call, **ANSWERS | change)
    call.refresh_from_db()
    assert call.as_card().input["answers"]["Which <color>?"] == "Blue, dark"


def test_answering_needs_the_permission_to_vote(call: ToolCall, client: Client) -> None:
    client.force_login(get_user_model().objects.create_user("bob"))
    assert send(client, call, **ANSWERS).status_code == 403
    call.refresh_from_db()
    assert call.state == "approval-requested"


def test_a_rule_that_lets_nothing_be_edited_still_lets_questions_be_answered(
    ann: Client, policy: Any, a_call: Any
) -> None:
    rule = {"id": "q", "effect": "ask", "match": {"tool": ["AskUserQuestion"]}, "ask": {"editable": []}}
    policy({"default": "allow", "rules": [rule]})
    call = a_call("approval-requested", tool="AskUserQuestion", input=INPUT)
    assert send(ann, call, **ANSWERS).status_code == 200
