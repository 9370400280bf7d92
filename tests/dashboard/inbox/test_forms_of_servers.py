"""Filling in a form of an MCP server in the inbox."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from toolcards.models import Approval, ToolCall

pytestmark = pytest.mark.django_db
PROPERTIES = {
    "size": {"type": "string", "enum": ["S", "M"], "enumNames": ["<i>Small</i>", "Medium"]},
    "count": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How <many>?"},
    "gift": {"type": "boolean", "default": False},
    "extras": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
    "password": {"type": "string", "title": "Note"},
}
FORM = {
    "message": "Order <script>alert(1)</script>\u202e",
    "requestedSchema": {"type": "object", "properties": PROPERTIES, "required": ["size", "count"]},
}
FIELDS = {"answer-0": "1", "answer-1-text": "3", "answer-2": "0", "answer-3": ["0", "2"], "answer-4-text": "soon"}
ANSWERS = {"size": "M", "count": 3, "gift": True, "extras": ["a", "c"], "password": "soon"}


@pytest.fixture
def ann(an_approver: Any, client: Client, policy: Any) -> Client:
    policy({"default": "allow", "unknown_tool": "allow"})
    client.force_login(an_approver)
    return client


@pytest.fixture
def call(ann: Client, a_form: Any) -> ToolCall:
    result: ToolCall = a_form(FORM)
    return result


@pytest.fixture
def a_form(source: Any) -> Any:
    from toolcards.gate.decisions.decision_request import DecideCall, DecisionRequest
    from toolcards.gate.writer import group_commit

    def ask(form: Any, tool: str = "elicitation/create") -> ToolCall:
        request = DecisionRequest("run-1", "form-1", tool, form, tool_source="shop")
        group_commit.execute(DecideCall(source, request))
        return ToolCall.objects.get(call_id="form-1")

    return ask


def send(browser: Client, call: ToolCall, decision: str = "answer", **fields: Any) -> Any:
    ask = call.as_card().approval
    assert ask is not None
    fields |= {"decision": decision, "rev": call.as_card().rev, "args_sha256": ask.args_sha256}
    return browser.post(f"/approvals/{Approval.objects.get(call=call).pk}/vote", fields, HTTP_HX_REQUEST="true")


def test_a_form_asks_a_person_although_the_policy_allows_everything(call: ToolCall) -> None:
    decision = call.as_card().decision
    assert call.state == "approval-requested" and decision is not None
    assert (decision.code, decision.reason) == ("question", "The server asks its user.")


def test_the_page_shows_each_field_and_escapes_hostile_texts(ann: Client, call: ToolCall) -> None:
    page = " ".join(ann.get("/approvals/").content.decode().split())
    form = page[page.index("data-questions") : page.index("</form>", page.index("data-questions"))]
    assert "&lt;i&gt;Small&lt;/i&gt;" in form and "How &lt;many&gt;?" in form and "<script>alert" not in page
    assert form.count('type="radio" name="answer-0"') == 2 and form.count('type="checkbox" name="answer-3"') == 3
    assert 'name="answer-0-text"' not in form and 'name="answer-4-text"' in form and "\u202e" not in form
    assert "at least 1, at most 9" in form and form.count('muted">(optional)') == 3
    assert 'value="answer"' in form and 'value="approve"' not in form


def test_the_answers_have_the_types_of_the_schema(ann: Client, call: ToolCall) -> None:
    response = send(ann, call, **FIELDS)
    call.refresh_from_db()
    assert (response.status_code, call.state) == (200, "approval-responded"), response.content
    assert call.as_card().input == FORM | {"answers": ANSWERS}


def test_fields_that_are_optional_may_be_left_out(ann: Client, call: ToolCall) -> None:
    assert send(ann, call, **{"answer-0": "0", "answer-1-text": "1"}).status_code == 200
    call.refresh_from_db()
    assert call.as_card().input["answers"] == {"size": "S", "count": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer-0": ""}, "Choose an answer to: size"),
        ({"answer-0": "7"}, "Choose an answer to: size"),
        ({"answer-0": ["0", "1"]}, "Choose an answer to: size"),
        ({"answer-0": "", "answer-0-text": "S"}, "Choose an answer to: size"),
        ({"answer-1-text": "12"}, "count: enter a whole number, at least 1, at most 9."),
        ({"answer-1-text": "<b>"}, "count: enter a whole number"),
        ({"answer-1-text": ""}, "Choose an answer to: count"),
        ({"answer-2": ["0", "1"]}, "Choose an answer to: gift"),
        ({"answer-4-text": "x" * 4_001}, "at most 4,000 characters"),
    ],
)
def test_an_answer_that_does_not_fit_is_named_and_the_form_waits(
    ann: Client, call: ToolCall, change: dict[str, Any], message: str
) -> None:
    response = send(ann, call, **FIELDS | change)
    call.refresh_from_db()
    assert (response.status_code, call.state) == (422, "approval-requested")
    assert message in response.content.decode()
    assert send(ann, call, **FIELDS).status_code == 200


@pytest.mark.parametrize(
    "edited",
    [
        FORM | {"answers": ANSWERS | {"count": 12}},
        FORM | {"answers": ANSWERS | {"extra": 1}},
        FORM | {"answers": {}},
        FORM | {"answers": "M"},
        FORM | {"message": "Other", "answers": ANSWERS},
        FORM | {"more": 1},
        {},
    ],
)
def test_an_edit_by_a_person_must_match_the_schema(ann: Client, call: ToolCall, edited: Any) -> None:
    import json

    assert send(ann, call, "edit", edited_args=json.dumps(edited)).status_code == 422
    call.refresh_from_db()
    assert call.state == "approval-requested"


def test_approval_alone_is_no_answer(ann: Client, call: ToolCall) -> None:
    response = send(ann, call, "approve")
    assert response.status_code == 422 and "asks a question" in response.content.decode()


def test_the_first_of_two_answers_counts(ann: Client, call: ToolCall, a_person: Any) -> None:
    other = Client()
    other.force_login(a_person("approver", "eve"))
    assert send(ann, call, **FIELDS).status_code == 200
    assert send(other, call, **FIELDS | {"answer-0": "0"}).status_code in {409, 412}
    call.refresh_from_db()
    assert call.as_card().input["answers"]["size"] == "M"


def test_a_form_without_fields_asks_for_consent(ann: Client, a_form: Any) -> None:
    call = a_form({"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}})
    assert 'value="answer"' in ann.get("/approvals/").content.decode()
    assert send(ann, call).status_code == 200
    call.refresh_from_db()
    assert call.state == "approval-responded"


def test_a_form_that_cannot_be_shown_is_denied_at_once(ann: Client, a_form: Any) -> None:
    call = a_form({"message": "x", "requestedSchema": {"properties": {"x": {"type": "object"}}}})
    assert call.state == "output-denied" and "cannot be shown" in call.as_card().decision.reason


def test_a_rule_that_denies_forms_holds(ann: Client, policy: Any, a_form: Any) -> None:
    policy({"default": "allow", "rules": [{"id": "n", "effect": "deny", "match": {"tool": ["elicitation/create"]}}]})
    assert a_form(FORM).state == "output-denied"


def test_a_form_of_a_run_that_announced_its_tools_is_no_tool_of_its_model(ann: Client, source: Any) -> None:
    from toolcards.gate.decisions.decision_request import DecideCall, DecisionRequest
    from toolcards.gate.writer import group_commit

    offers = [{"name": "ask_user", "input_schema": {"type": "object"}}]
    group_commit.execute(DecideCall(source, DecisionRequest("run-1", "c-1", "ask_user", {}, tools=offers)))
    group_commit.execute(DecideCall(source, DecisionRequest("run-1", "form-1", "elicitation/create", FORM)))
    call = ToolCall.objects.get(call_id="form-1")
    assert call.as_card().decision.reason == "The agent asks its user."
    assert send(ann, call, **FIELDS).status_code == 200
    call.refresh_from_db()
    assert call.as_card().input == FORM | {"answers": ANSWERS}


def test_two_people_answer_where_a_rule_wants_two(ann: Client, policy: Any, a_form: Any, a_person: Any) -> None:
    ask = {"id": "q", "effect": "ask", "match": {"tool": ["elicitation/create"]}, "ask": {"quorum": 2}}
    other = Client()
    other.force_login(a_person("approver", "eve"))
    policy({"default": "allow", "rules": [ask]})
    call = a_form(FORM)
    assert send(ann, call, **FIELDS).status_code == 200
    call.refresh_from_db()
    assert call.state == "approval-requested"
    digest = call.as_card().approval.edited
    assert digest == FORM | {"answers": ANSWERS}
    from toolcards.client.common.canonical_json import digest as compute

    fields = {"decision": "approve", "rev": call.as_card().rev, "args_sha256": compute(digest)}
    path = f"/approvals/{Approval.objects.get(call=call).pk}/vote"
    assert other.post(path, fields, HTTP_HX_REQUEST="true").status_code == 200
    call.refresh_from_db()
    assert call.state == "approval-responded" and call.as_card().input["answers"] == ANSWERS


def test_the_person_that_the_agent_works_for_may_answer(
    ann: Client, source: Any, an_approver: Any, a_form: Any
) -> None:
    source.owner = an_approver
    source.save()
    assert send(ann, a_form(FORM), **FIELDS).status_code == 200


def test_answering_needs_the_permission_to_vote(call: ToolCall) -> None:
    bob = Client()
    bob.force_login(get_user_model().objects.create_user("bob"))
    assert send(bob, call, **FIELDS).status_code == 403
